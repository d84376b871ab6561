package fileguard

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/fencedlock/fencedlock/guard"
)

// Remove removes the file name, guarded by tok; the mark stays. It returns nil when there is no such file, or not even a folder for it. What it takes
// for a name, its errors and what ctx governs are those of [Guard.Write]; folders are not removed.
func (g *Guard) Remove(ctx context.Context, resource string, tok guard.Token, name string) (err error) {
	defer func() { g.report(ctx, resource, tok, err) }()
	if err := checkName(name); err != nil {
		return err
	}
	d, err := g.begin(ctx, resource, tok)
	if err != nil {
		return err
	}
	defer d.Close()
	return g.step(ctx, d, resource, tok, func() error {
		folder, err := openFolderOf(d, name)
		if errors.Is(err, fs.ErrNotExist) {
			unknown, err := syncAbsence(d, path.Dir(name))
			return outcome("removing", name, unknown, err)
		}
		if err != nil {
			return outcome("removing", name, false, err)
		}
		defer folder.Close()
		unknown, err := unlink(d, name, folder)
		return outcome("removing", name, unknown, err)
	})
}

// syncAbsence syncs the innermost folder that there is of the way to the missing one: whoever removed what is missing may have
// been killed before that.
func syncAbsence(d disk, missing string) (unknown bool, err error) {
	for missing != "." {
		missing = path.Dir(missing)
		folder, err := d.OpenFile(missing, openFolder, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, err
		}
		defer folder.Close()
		err = folder.Sync()
		return err != nil, err
	}
	return false, fs.ErrNotExist // the guarded folder itself
}

// unlink removes a file durably. unknown tells that an error came too late to say that nothing has changed. The folder is
// synced also where there is no file: whoever removed it may have been killed before that.
func unlink(d disk, name string, folder file) (unknown bool, err error) {
	if err := d.RemoveFrom(folder, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		info, gone := d.Lstat(name)
		if gone == nil && info.IsDir() { // some systems say only that it is not permitted
			err = fmt.Errorf("it is a folder: %w", err)
		}
		return gone != nil, err
	}
	if err := folder.Sync(); err != nil {
		return true, err
	}
	return false, nil
}
