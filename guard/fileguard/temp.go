package fileguard

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// tempPrefix begins the names of unfinished contents. They are in the folder of marks, so that a rename into place can
// only succeed on the file system that New has looked at, and what killed writers leave is in one place.
const tempPrefix = "tmp-"

// temp is content that has not got its final name yet. Its writer has a lock on it as long as it lives, so that others
// can tell what a killed one has left.
type temp struct {
	d      disk
	f      file
	name   string
	placed bool
}

func newTemp(d disk) (*temp, error) {
	// Whoever removes leftovers may have come between the making and the lock: take another one then. More than once
	// in a row that does not happen by chance.
	for range 10 {
		t := &temp{d: d, name: marksDir + "/" + tempPrefix + strings.ToLower(rand.Text())}
		f, err := d.OpenFile(t.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, err
		}
		t.f = f
		locked, err := f.TryLock()
		if err == nil && locked {
			locked, err = isStill(d, t.name, f)
		}
		if err == nil && locked {
			return t, nil
		}
		t.discard()
		if err != nil {
			return nil, err
		}
	}
	return nil, errors.New("each one was taken away at once")
}

// seal makes the content durable: before the rename, since a name that is on the disk before its content is an empty file
// after a power failure.
func (t *temp) seal(perm fs.FileMode) error {
	if err := t.f.Chmod(perm); err != nil {
		return err
	}
	return t.f.Sync()
}

// place gives the content its final name in the folder, see replace.
func (t *temp) place(name string, folder file) (unknown bool, err error) {
	unknown, err = replace(t.d, t.name, name, folder)
	t.placed = unknown || err == nil
	if !t.placed {
		if info, errLook := t.d.Lstat(name); errLook == nil && info.IsDir() { // "file exists" would be all that rename says
			err = fmt.Errorf("it is a folder: %w", err)
		}
	}
	return unknown, err
}

// discard gives up what was not placed. What cannot be removed now, the next New removes.
func (t *temp) discard() {
	if !t.placed {
		_ = t.d.Remove(t.name)
	}
	_ = t.f.Close()
}

// removeLeftovers removes contents whose writers have gone.
func removeLeftovers(d disk) error {
	folder, err := d.OpenFile(marksDir, openFolder, 0)
	if err != nil {
		return err
	}
	defer folder.Close()
	entries, err := folder.ReadDir(-1)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), tempPrefix) && e.Type().IsRegular() { // no writer has made anything else
			if err := removeIfLeft(d, marksDir+"/"+e.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}

func removeIfLeft(d disk, name string) error {
	f, err := d.OpenFile(name, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil // it has got its final name, somebody else removed it, or it is for its owner to remove
	}
	if err != nil {
		return err
	}
	defer f.Close()
	left, err := f.TryLock()
	if err != nil || !left {
		return err
	}
	if err := d.Remove(name); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}
