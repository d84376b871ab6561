package fileguard

import (
	"context"
	"errors"
	"io/fs"

	"github.com/fencedlock/fencedlock/guard"
)

// Repair gives a resource whose mark is damaged a new one, floor. It is for an operator who knows a floor, not for a program
// that met a [*MarkError]: with a floor that is too low, late writers get in. Take a number at least as high as any
// token of the resource so far; the present revision of the etcd that hands out the tokens is one.
//
// It never lowers: a mark that can be read is raised to floor, or stays if it is higher. A mark that is there, but
// is a folder or another thing that cannot be replaced in one step, is refused: between taking it away and
// writing the new one there would be no mark at all. Stop the writers, take it away, and call Repair then.
//
// After nil, the mark is on the disk and at least floor. Its errors and what ctx governs are those of [Guard.Seal], but for
// the stale one, which it does not return.
func (g *Guard) Repair(ctx context.Context, resource string, floor guard.Token) (err error) {
	defer func() { g.report(ctx, resource, floor, err) }()
	d, err := g.begin(ctx, resource, floor)
	if err != nil {
		return err
	}
	defer d.Close()
	l, err := g.lock(ctx, d, resource)
	if err != nil {
		return err
	}
	defer l.Close()
	known := g.syncedMark(resource)
	highest, err := lookUpMark(d, resource)
	if err != nil {
		if err := replaceable(d, resource); err != nil {
			return &MarkError{Resource: resource, Path: g.path(markName(resource)), Err: err}
		}
	}
	unknown, err := g.writeMark(d, resource, max(floor, highest, known))
	return outcome("repairing the mark of", resource, unknown, err)
}

// replaceable returns nil if a rename can take the place of the mark.
func replaceable(d disk, resource string) error {
	info, err := d.Lstat(markName(resource))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return errors.New("it is a folder, which cannot be replaced in one step; stop the writers, take it away and repair then")
	}
	return nil
}
