package etcdguard

import (
	"context"

	"github.com/fencedlock/fencedlock/guard"
)

// create marks a resource that has no mark, in a transaction of its own without the operations. So these are only ever sent
// on a mark that is there. Without one, it could not be told whether there was one meanwhile that somebody deleted, and with
// it the number of a write that was applied.
func (a *attempts) create(ctx context.Context) error {
	if err := guard.Check(a.resource, a.tok, a.place.highest); err != nil {
		return err
	}
	first := *a
	first.ops, first.by = nil, last{a.by.instance, newNumber()}
	for try := 0; ; try++ {
		resp, err := first.send(ctx)
		switch {
		case err == nil && resp.Succeeded:
			a.move(first.base)
			return nil
		case err == nil: // somebody else has made it, or an earlier sending of this
			now, err := first.other(resp)
			if err == nil {
				a.move(now)
			}
			return err
		case ctx.Err() != nil || refusal(err) || repeated(err) || try >= a.g.opts.MaxRetries || pause(ctx, try) != nil:
			if len(a.ops) == 0 { // the mark is all that was to be written
				return because(ctx, a.unknown(err))
			}
			return because(ctx, a.refused(err))
		}
	}
}
