package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/fencedlock/fencedlock/internal/lease"
)

// unlockBound is how long Unlock waits for a confirmation at most.
const unlockBound = 5 * time.Second

// unlock is the state of giving a lock back.
type unlock struct {
	mu    sync.Mutex // held while a call waits for etcd
	begun bool       // guarded by mu
	err   error      // of the calls after; guarded by mu
	swept chan bool  // gets one value when the sweeper is done with the key; nil if it never got it; guarded by mu
}

// Unlock ends Context with [ErrReleased], then deletes the lock's key if it is
// still this hold's. It takes no context, since giving a lock back must not be
// forgotten because a request was cancelled: it waits for etcd for as long as the
// session's lease lasts and for 5 s at most.
//
// nil means that the lock is free for the next one. Errors: one that wraps
// [ErrLost] when the hold was over before, so that another may have held the lock
// meanwhile; [ErrUnconfirmed] when etcd's answer is not known, in which case the
// session goes on trying and a further call waits again.
//
// Unlock is to be called for every hold, after a loss too, since this process
// remembers the hold until then. It may be called more than once and from several
// goroutines. Only one release is made, and it never touches a later hold. A reply that was lost does
// not turn a release into a loss: when the key is then found to be gone, it was
// released.
func (h *Held) Unlock() error {
	if h.never() {
		return errNeverHeld
	}
	u := &h.unlock
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.begun {
		u.begun = true
		u.err = h.release()
	} else if errors.Is(u.err, ErrUnconfirmed) {
		u.err = h.awaitSweeper()
	}
	return u.err
}

// releasedError is ErrReleased with the lock's name. Every release makes one, and
// hardly anybody reads it, so it is put together when read.
type releasedError string

func (e releasedError) Error() string { return fmt.Sprintf("%v: %q", ErrReleased, string(e)) }

func (e releasedError) Unwrap() error { return ErrReleased }

// release makes the first attempts. h.unlock.mu is held.
func (h *Held) release() error {
	c := h.claim
	_ = h.Err() // looks at the clock, so that what was lost is not released
	c.end(releasedError(c.name))
	c.quiet()
	h.stopLimit()
	if cause := context.Cause(c.ctx); !errors.Is(cause, ErrReleased) {
		if errors.Is(cause, ErrMaxHold) {
			return cause // expire has handed the key to the sweeper
		}
		c.abandon(nil)
		return cause
	}
	ctx, cancel := context.WithCancel(c.lease.Context())
	defer cancel()
	defer time.AfterFunc(unlockBound, cancel).Stop()
	err := c.delete(ctx)
	if err == nil {
		c.queue.forget(c.nonce)
		// A late put may have landed since the delete, and the sweeper may have
		// looked while this claim still wanted the key.
		c.sweepLatePut()
		c.gone()
		return nil
	}
	if errors.Is(err, ErrLost) {
		c.abandon(nil) // what somebody else wrote under the key's name would block all others
		return err
	}
	if ctx.Err() != nil && c.lease.Err() == nil {
		err = fmt.Errorf("etcd has not answered within %v", unlockBound)
	}
	swept := make(chan bool, 1)
	h.unlock.swept = swept
	c.abandon(func(gone bool) { swept <- gone })
	return fmt.Errorf("%w: %q: %w", ErrUnconfirmed, c.name, err)
}

// delete deletes the claim's key until etcd has answered or ctx ends.
func (c *claim) delete(ctx context.Context) error {
	uncertain, deleted := false, false
	err := c.lease.Retry(ctx, func() error {
		var err error
		deleted, err = c.lease.Delete(ctx, c.key, c.rev)
		uncertain = uncertain || err != nil && !lease.Certain(err)
		return err
	})
	if err != nil || deleted {
		return err
	}
	if uncertain {
		// Gone means that an attempt without a reply has deleted it. Else somebody
		// has overwritten it.
		var found *mvccpb.KeyValue
		err = c.lease.Retry(ctx, func() (err error) {
			found, err = c.lease.Find(ctx, c.key)
			return err
		})
		if err != nil || found == nil {
			return err
		}
	}
	return lostBecause(c.name, errors.New("its key had been deleted or overwritten before Unlock"))
}

// awaitSweeper waits for the end of a release that was not confirmed.
// h.unlock.mu is held.
func (h *Held) awaitSweeper() error {
	if h.unlock.swept == nil {
		return h.unlock.err
	}
	timer := time.NewTimer(unlockBound)
	defer timer.Stop()
	select {
	case gone := <-h.unlock.swept:
		if gone {
			return nil
		}
		h.unlock.swept = nil // nothing more will come
		return fmt.Errorf("%w: %q: %w", ErrUnconfirmed, h.claim.name, h.claim.lease.Err())
	case <-timer.C:
		return h.unlock.err
	}
}

// expire ends a hold whose time is up and has its key deleted.
func (h *Held) expire(cause error) {
	c := h.claim
	c.end(cause)
	if context.Cause(c.ctx) == cause {
		c.abandon(nil)
	}
}

func (h *Held) stopLimit() {
	h.limits.mu.Lock()
	defer h.limits.mu.Unlock()
	if h.limits.timer != nil {
		h.limits.timer.Stop()
		h.limits.timer = nil
	}
}
