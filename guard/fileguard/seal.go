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

// Highest implements [guard.Sealer]. It takes no lock and waits for nobody. A mark that cannot be read is a [*MarkError].
func (g *Guard) Highest(ctx context.Context, resource string) (guard.Token, error) {
	d, err := g.begin(ctx, resource, 1)
	if err != nil {
		return 0, err
	}
	defer d.Close()
	return g.readMark(d, resource)
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
