package fileguard

import (
	"context"
	"errors"
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
	folder, err := openFolderOf(d, name)
	if err != nil {
		return err
	}
	defer folder.Close()
	return g.step(ctx, d, resource, tok, func() error {
		unknown, err := unlink(d, name, folder)
		return outcome("removing", name, unknown, err)
	})
}

// unlink removes a file durably. unknown tells that an error came too late to say that nothing has changed. The folder is
// synced also where there is no file: whoever removed it may have been killed before that.
func unlink(d disk, name string, folder file) (unknown bool, err error) {
	info, err := d.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return false, err
	case info.IsDir():
		return false, errors.New("it is a folder")
	default:
		if err := d.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			_, gone := d.Lstat(name)
			return gone != nil, err
		}
	}
	if err := folder.Sync(); err != nil {
		return true, err
	}
	return false, nil
}
