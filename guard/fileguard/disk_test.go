package fileguard

import (
	"io/fs"
	"path"
	"testing"
)

// hooked is a disk that asks before each call whether it may go on. A call is named by what it does and to which file,
// such as "sync accounts/1.json"; closing is not asked for, as the kernel closes what a dead process had open.
type hooked struct {
	disk
	before func(op, name string) error
}

func (d hooked) OpenFile(name string, flag int, perm fs.FileMode) (file, error) {
	if err := d.before("open", name); err != nil {
		return nil, err
	}
	f, err := d.disk.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return hookedFile{f, name, d.before}, nil
}

func (d hooked) Mkdir(name string, perm fs.FileMode) error {
	if err := d.before("mkdir", name); err != nil {
		return err
	}
	return d.disk.Mkdir(name, perm)
}

func (d hooked) Lstat(name string) (fs.FileInfo, error) {
	if err := d.before("lstat", name); err != nil {
		return nil, err
	}
	return d.disk.Lstat(name)
}

func (d hooked) Rename(from, to string, folder file) error {
	if err := d.before("rename", to); err != nil {
		return err
	}
	return d.disk.Rename(from, to, folder)
}

func (d hooked) Remove(name string) error {
	if err := d.before("remove", name); err != nil {
		return err
	}
	return d.disk.Remove(name)
}

func (d hooked) RemoveFrom(folder file, name string) error {
	if err := d.before("remove", name); err != nil {
		return err
	}
	return d.disk.RemoveFrom(folder, name)
}

type hookedFile struct {
	file
	name   string
	before func(op, name string) error
}

func (f hookedFile) Read(p []byte) (int, error) {
	if err := f.before("read", f.name); err != nil {
		return 0, err
	}
	return f.file.Read(p)
}

func (f hookedFile) Write(p []byte) (int, error) {
	if err := f.before("write", f.name); err != nil {
		return 0, err
	}
	return f.file.Write(p)
}

func (f hookedFile) ReadDir(n int) ([]fs.DirEntry, error) {
	if err := f.before("readdir", f.name); err != nil {
		return nil, err
	}
	return f.file.ReadDir(n)
}

func (f hookedFile) Stat() (fs.FileInfo, error) {
	if err := f.before("stat", f.name); err != nil {
		return nil, err
	}
	return f.file.Stat()
}

func (f hookedFile) Chmod(perm fs.FileMode) error {
	if err := f.before("chmod", f.name); err != nil {
		return err
	}
	return f.file.Chmod(perm)
}

func (f hookedFile) Sync() error {
	if err := f.before("sync", f.name); err != nil {
		return err
	}
	return f.file.Sync()
}

func (f hookedFile) TryLock() (bool, error) {
	if err := f.before("lock", f.name); err != nil {
		return false, err
	}
	return f.file.TryLock()
}

// newHooked returns a guard on dir whose calls are asked for.
func newHooked(t testing.TB, dir string, o *Options, before func(op, name string) error) *Guard {
	t.Helper()
	g, err := newGuard(dir, o, func() (disk, error) {
		d, err := openDisk(dir)
		return hooked{d, before}, err
	}, fileSystemOf)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// isMark tells whether a name is that of a mark, and not that of one being written.
func isMark(name string) bool { return path.Dir(name) == marksDir && path.Ext(name) == ".mark" }
