package fileguard

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
)

// openFolderOf opens the folder that the file is in: the change is made in it and it is synced, also when its name leads
// elsewhere meanwhile.
func openFolderOf(d disk, name string) (file, error) {
	folder, err := d.OpenFile(path.Dir(name), openFolder, 0)
	if err != nil {
		return nil, err
	}
	marks, err := holdsMarks(d, path.Dir(name), folder)
	if err == nil && marks {
		err = errors.New("it holds the marks of a guard")
	}
	if err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	return folder, nil
}

// checkFolderOf finds out before a write what would come out under the lock.
func checkFolderOf(d disk, name string) error {
	folder, err := openFolderOf(d, name)
	if err != nil {
		return fmt.Errorf("fileguard: the folder of %q, nothing was changed: %w", name, err)
	}
	return folder.Close()
}

// holdsMarks tells whether an open folder is the marks' folder of this guard, or of one on a folder further in. Names do not
// tell: symbolic links and mounts lead there, and file systems that fold letters know the folder by other names. So it
// compares the folder with what has the name of a marks' folder beside it.
func holdsMarks(d disk, name string, folder file) (bool, error) {
	info, err := folder.Stat()
	if err != nil {
		return false, err
	}
	top, err := d.Lstat(".")
	if err != nil || os.SameFile(info, top) { // which is none, see New, and has nothing beside it that can be asked for
		return false, err
	}
	for _, marks := range []string{marksDir, name + "/../" + marksDir} { // os.Root takes ".." from where links have led to
		there, err := d.Lstat(marks)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return false, err
		case os.SameFile(info, there):
			return true, nil
		}
	}
	return false, nil
}

// refuseMarksOfOthers returns an error if the folder to guard holds the marks of a guard on the folder around it.
func refuseMarksOfOthers(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("fileguard: the folder to guard: %w", err)
	}
	there, err := os.Lstat(dir + "/../" + marksDir) // not cleaned: from where links have led to
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("fileguard: beside the folder to guard: %w", err)
	case os.SameFile(info, there):
		return fmt.Errorf("fileguard: %s holds the marks of a guard and cannot be guarded itself", dir)
	}
	return nil
}
