package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fencedlock/fencedlock/internal/lease"
)

// How long a lock is held, and waited for, before the claim's own key is watched.
// That costs etcd as much as the wait itself, so short critical sections, and
// queues that move on quickly, never pay for it.
const (
	monitorHoldAfter = 50 * time.Millisecond
	monitorWaitAfter = 500 * time.Millisecond
)

// A monitor ends a claim as soon as its key is gone or was written by somebody
// else. The session's renewals do not show that: etcd can acknowledge one for a
// lease whose keys it has already deleted.
//
// It has no goroutine of its own besides the watch's, since there may be
// thousands of claims.
type monitor struct {
	*claim
	mu     sync.Mutex // held while the key is looked at
	told   bool       // the watch has said something; guarded by mu
	watch  *lease.Watch
	reread *time.Timer
}

func (c *claim) watchOwnKey() {
	m := &monitor{claim: c}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watch = c.lease.Watch(c.ctx, c.key, func() { m.check(false) })
	m.reread = time.AfterFunc(c.lease.Reread(), func() {
		c.lease.Go(func(context.Context) { m.check(true) })
	})
	context.AfterFunc(c.ctx, func() { m.reread.Stop() })
}

// check reads the key and ends the claim if it is lost.
func (m *monitor) check(byTimer bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ctx := m.ctx
	if ctx.Err() != nil {
		return
	}
	m.told = m.told || !byTimer
	var lost error
	err := m.lease.Retry(ctx, func() error {
		found, err := m.lease.Find(ctx, m.key)
		if err != nil {
			return err
		}
		switch {
		case found == nil:
			lost = errors.New("its key was deleted")
		case found.ModRevision != m.rev:
			lost = fmt.Errorf("its key %q was written by somebody else, at revision %d", m.key, found.ModRevision)
		}
		return nil
	})
	if err != nil && ctx.Err() != nil {
		return // the claim is over
	}
	if byTimer && (lost != nil || !m.told) {
		m.watch.Deaf()
	}
	if lost != nil {
		m.lose(ctx, lost)
		return
	}
	m.reread.Reset(m.lease.Reread())
}

// askBound is how long a loss that has been seen waits for a better reason.
const askBound = 250 * time.Millisecond

// lose ends the claim because of what was seen of its key. When the lease is
// gone that is the better reason, so etcd is asked.
func (c *claim) lose(ctx context.Context, why error) {
	asking, cancel := context.WithTimeout(ctx, askBound)
	c.lease.RenewNow(asking)
	cancel()
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
