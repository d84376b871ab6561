package fileguard

import (
	"context"
	"fmt"

	"github.com/fencedlock/fencedlock/guard"
)

// Seal implements [guard.Sealer]. Its errors are those of [Guard.Write]; after [guard.ErrUnknown] the mark is the old one
// or tok, and calling Seal again is harmless.
//
// What is read after it is not changed by earlier holders any more. It may be the last write of one who was
// killed before it was reported: such a write is visible, but a power failure can still undo it.
func (g *Guard) Seal(ctx context.Context, resource string, tok guard.Token) (err error) {
	defer func() { g.report(ctx, resource, tok, err) }()
	d, err := g.begin(ctx, resource, tok)
	if err != nil {
		return err
	}
	defer d.Close()
	l, err := g.lock(ctx, d, resource)
	if err != nil {
		return err
	}
	defer l.Close()
	unknown, err := g.raise(d, resource, tok)
	if unknown {
		return fmt.Errorf("fileguard: %w: the mark is raised or not: %w", guard.ErrUnknown, err)
	}
	return err
}

// Highest implements [guard.Sealer]. It takes no lock and waits for nobody but the disk: what it returns is synced first, since
// whoever wrote it may have been killed before. A mark that cannot be read is a [*MarkError].
//
// It is not written again, as in [Guard.Seal]. So where the disk has failed to sync it before, which a disk says once and
// to whoever asked then, a power failure can still take back what Highest returned.
func (g *Guard) Highest(ctx context.Context, resource string) (guard.Token, error) {
	d, err := g.begin(ctx, resource, 1)
	if err != nil {
		return 0, err
	}
	defer d.Close()
	highest, err := g.readMark(d, resource)
	if err != nil || highest == 0 || highest == g.syncedMark(resource) {
		return highest, err
	}
	if err := syncMarks(d); err != nil {
		return 0, fmt.Errorf("fileguard: syncing the mark of %q, which may not be on the disk: %w", resource, err)
	}
	return highest, nil
}

// syncMarks makes the marks that were seen durable: what a mark holds was synced before it got its name.
func syncMarks(d disk) error {
	folder, err := d.OpenFile(marksDir, openFolder, 0)
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}

// begin is the beginning of every operation: what can be seen to be wrong without I/O, then the folder.
func (g *Guard) begin(ctx context.Context, resource string, tok guard.Token) (disk, error) {
	if err := g.made(); err != nil {
		return nil, err
	}
	if err := guard.Check(resource, tok, 0); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d, err := g.open()
	if err != nil {
		return nil, fmt.Errorf("fileguard: the guarded folder: %w", err)
	}
	return d, nil
}
