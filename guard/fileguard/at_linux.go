package fileguard

import (
	"errors"
	"os"
	"path"
	"syscall"
)

// openFolder opens nothing but a folder: without O_DIRECTORY a pipe of that name is waited for until somebody writes to it.
const openFolder = os.O_RDONLY | syscall.O_DIRECTORY

// renameInto gives a file a name in an open folder, wherever that is by now.
func renameInto(folder *os.File, r *os.Root, from, to string) error {
	source, err := r.OpenFile(path.Dir(from), openFolder, 0)
	if err != nil {
		return err
	}
	defer source.Close()
	return inFolder(source, func(fd int) error {
		return inFolder(folder, func(toFD int) error {
			if err := syscall.Renameat(fd, path.Base(from), toFD, path.Base(to)); err != nil {
				return &os.LinkError{Op: "renameat", Old: from, New: to, Err: err}
			}
			return nil
		})
	})
}

// removeFrom removes a file from an open folder, and never a folder.
func removeFrom(folder *os.File, _ *os.Root, name string) error {
	return inFolder(folder, func(fd int) error {
		if err := syscall.Unlinkat(fd, path.Base(name)); err != nil {
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
		for done = do(int(fd)); errors.Is(done, syscall.EINTR); done = do(int(fd)) {
		}
	})
	return errors.Join(err, done)
}
