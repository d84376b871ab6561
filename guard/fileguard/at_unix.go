//go:build linux || darwin

package fileguard

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// openFolder opens nothing but a folder: without O_DIRECTORY a pipe of that name is waited for until somebody writes to it.
const openFolder = os.O_RDONLY | unix.O_DIRECTORY

// renameAt gives a file of one open folder a name in another.
func renameAt(folder *os.File, from string, to *os.File, name string) error {
	return inFolder(folder, func(fd int) error {
		return inFolder(to, func(toFD int) error {
			if err := unix.Renameat(fd, from, toFD, name); err != nil {
				return &os.LinkError{Op: "renameat", Old: from, New: name, Err: err}
			}
			return nil
		})
	})
}

// removeAt removes a file of an open folder, and never a folder.
func removeAt(folder *os.File, name string) error {
	return inFolder(folder, func(fd int) error {
		if err := unix.Unlinkat(fd, name, 0); err != nil {
			return &os.PathError{Op: "unlinkat", Path: name, Err: err}
		}
		return nil
	})
}

func inFolder(folder *os.File, do func(fd int) error) error {
	conn, err := folder.SyscallConn()
	if err != nil {
		return err
	}
	var done error
	err = conn.Control(func(fd uintptr) {
		for done = do(int(fd)); errors.Is(done, unix.EINTR); done = do(int(fd)) {
		}
	})
	return errors.Join(err, done)
}
