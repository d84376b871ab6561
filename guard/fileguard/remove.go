package fileguard

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/fencedlock/fencedlock/guard"
)

// Remove removes the file name, guarded by tok; the mark stays. It returns nil when there is no such file. What it takes
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
		if err != nil {
			return outcome("removing", name, false, err)
		}
		defer folder.Close()
		unknown, err := unlink(d, name, folder)
		return outcome("removing", name, unknown, err)
	})
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
