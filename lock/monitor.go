package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// monitorDelay is how old a claim becomes before its own key is watched.
const monitorDelay = 50 * time.Millisecond

// watchOwnKey ends the claim as soon as its key is gone or was written by
// somebody else. The session's renewals do not show that: etcd can acknowledge
// one for a lease whose keys it has already deleted.
func (c *claim) watchOwnKey() {
	ctx := c.ctx
	w := c.lease.Watch(ctx, c.key)
	reread := time.NewTimer(c.lease.TTL() / 3)
	defer reread.Stop()
	for told := false; ; {
		byTimer := false
		select {
		case <-ctx.Done():
			return
		case <-w.C:
			told = true
		case <-reread.C:
			byTimer = true
		}
		var lost error
		err := c.lease.Retry(ctx, func() error {
			found, err := c.lease.Find(ctx, c.key)
			if err != nil {
				return err
			}
			switch {
			case found == nil:
				lost = errors.New("its key was deleted")
			case found.ModRevision != c.rev:
				lost = fmt.Errorf("its key %q was written by somebody else, at revision %d", c.key, found.ModRevision)
			}
			return nil
		})
		if err != nil && ctx.Err() != nil {
			return // the claim is over
		}
		if byTimer && (lost != nil || !told) {
			w.Deaf()
		}
		if lost != nil {
			c.lose(ctx, lost)
			return
		}
		reread.Reset(c.lease.TTL() / 3)
	}
}

// lose ends the claim because of what was seen of its key. When the lease is
// gone that is the better reason, so etcd is asked.
func (c *claim) lose(ctx context.Context, why error) {
	c.lease.RenewNow(ctx)
	if ctx.Err() != nil {
		return // released, or the session is over
	}
	if err := c.lease.Err(); err != nil {
		why = err
	}
	c.end(lostBecause(c.name, why))
}

func lostBecause(name string, why error) error {
	return fmt.Errorf("%w: %q: %w", ErrLost, name, why)
}
