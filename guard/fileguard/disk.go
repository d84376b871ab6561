package fileguard

import (
	"io"
	"io/fs"
	"os"
)

// disk is all that the guard does to a file system, with names relative to the guarded folder. Tests put one in its place
// that fails, stops, or loses what was not synced.
type disk interface {
	OpenFile(name string, flag int, perm fs.FileMode) (file, error)
	Mkdir(name string, perm fs.FileMode) error
	Lstat(name string) (fs.FileInfo, error)
	Rename(from, to string, folder file) error // to is in the open folder
	Remove(name string) error
	RemoveFrom(folder file, name string) error // only a file; name is in the open folder
	Close() error
}

// file is an open file or folder of a disk.
type file interface {
	io.ReadWriteCloser
	ReadDir(n int) ([]fs.DirEntry, error)
	Stat() (fs.FileInfo, error)
	Chmod(perm fs.FileMode) error
	Sync() error
	TryLock() (bool, error) // flock, exclusive; false: somebody else has it. It ends with Close.
	real() *os.File
}

// rootDisk is the real one. os.Root lets no name, and no symbolic link on the way, lead out of the folder.
type rootDisk struct{ *os.Root }

// openDisk is called for each operation: what is kept open nobody would close, and a folder that was replaced
// meanwhile would be written to unseen.
func openDisk(dir string) (disk, error) {
	r, err := os.OpenRoot(dir + "/") // only a folder: a pipe of that name would be waited for
	if err != nil {
		return nil, err
	}
	return rootDisk{r}, nil
}

func (d rootDisk) OpenFile(name string, flag int, perm fs.FileMode) (file, error) {
	f, err := d.Root.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (d rootDisk) Rename(from, to string, folder file) error {
	return renameInto(folder.real(), d.Root, from, to)
}

func (d rootDisk) RemoveFrom(folder file, name string) error {
	return removeFrom(folder.real(), d.Root, name)
}

// osFile is a file with flock. Its Sync is F_FULLFSYNC on macOS, since fsync alone leaves data in the drive's cache there.
type osFile struct{ *os.File }

func (f osFile) TryLock() (bool, error) { return tryFlock(f.File) }
func (f osFile) real() *os.File         { return f.File }
