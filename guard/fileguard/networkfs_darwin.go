package fileguard

import (
	"os"
	"strings"
	"syscall"
)

// mntLocal is MNT_LOCAL of sys/mount.h: the file system is stored locally.
const mntLocal = 0x1000

func fileSystemOf(path string) (fileSystemType, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		return fileSystemType{}, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	var name []byte
	for _, c := range s.Fstypename {
		if c == 0 {
			break
		}
		name = append(name, byte(c))
	}
	// FUSE carries local and remote ones, and says what it is told to.
	return fileSystemType{string(name), s.Flags&mntLocal == 0 || strings.Contains(string(name), "fuse")}, nil
}
