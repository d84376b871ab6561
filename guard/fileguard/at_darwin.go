package fileguard

import (
	"errors"
	"os"
	"path"
	"syscall"
)

// openFolder opens nothing but a folder: without O_DIRECTORY a pipe of that name is waited for until somebody writes to it.
const openFolder = os.O_RDONLY | syscall.O_DIRECTORY

// renameInto gives a file a name in an open folder. The standard library has no renameat here, so it goes by the names, and
// looks before and after whether they lead to that folder. After an error the caller looks what has happened.
func renameInto(folder *os.File, r *os.Root, from, to string) error {
	if err := leadsTo(folder, r, to); err != nil {
		return err
	}
	if err := r.Rename(from, to); err != nil {
		return err
	}
	return leadsTo(folder, r, to)
}

// removeFrom removes a file from an open folder, and never a folder, see renameInto.
func removeFrom(folder *os.File, r *os.Root, name string) error {
	if err := leadsTo(folder, r, name); err != nil {
		return err
	}
	info, err := r.Lstat(name)
	if err != nil {
		return err
	}
	if info.IsDir() { // an empty one would be removed
		return &os.PathError{Op: "remove", Path: name, Err: syscall.EISDIR}
	}
	if err := r.Remove(name); err != nil {
		return err
	}
	return leadsTo(folder, r, name)
}

// leadsTo returns an error if the folder of a name is not the open one.
func leadsTo(folder *os.File, r *os.Root, name string) error {
	opened, err := folder.Stat()
	if err != nil {
		return err
	}
	there, err := r.Stat(path.Dir(name))
	if err != nil || !os.SameFile(opened, there) { // also where there is none: it is not the file that is missing
		return errors.New("its folder was replaced at this moment")
	}
	return nil
}
