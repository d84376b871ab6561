package fileguard

import (
	"context"
	"fmt"

	"github.com/fencedlock/fencedlock/guard"
)

// step is the atomic step of every write: under the resource's lock it compares and raises the mark, and then makes the
// change. The mark is on the disk before the change begins, so a crash in between leaves a raised mark over old data,
// which is safe; the other way round the data would be open to late writers.
//
// ctx governs the wait for the lock. Once it is there, the step is done whatever becomes of ctx.
func (g *Guard) step(ctx context.Context, d disk, resource string, tok guard.Token, change func() error) error {
	l, err := g.lock(ctx, d, resource)
	if err != nil {
		return err
	}
	defer l.Close()
	if _, err := g.raise(d, resource, tok); err != nil {
		return err // whether the mark is raised or not, the data is untouched
	}
	return change()
}

// raise applies the rule. Nothing is concluded from a mark that this Guard has not itself seen through to the disk:
// whoever wrote it may have been killed before it was durable, or may have been told by fsync that it is not, which fsync
// says only once. After a power failure the data of a holder who took it as it stood would be there, and the mark
// would not. So it is written again.
func (g *Guard) raise(d disk, resource string, tok guard.Token) (unknown bool, err error) {
	highest, err := g.readMark(d, resource)
	if err != nil {
		return false, err
	}
	if mark := max(tok, highest); mark != g.syncedMark(resource) {
		if unknown, err := g.writeMark(d, resource, mark); err != nil {
			return unknown, fmt.Errorf("fileguard: writing the mark of %q to %s: %w", resource, g.path(markName(resource)), err)
		}
	}
	return false, guard.Check(resource, tok, highest)
}
