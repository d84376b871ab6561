package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fencedlock/fencedlock/guard"
)

var (
	// ErrLost is why a lock is not held any more although nobody released it:
	// its session is over, its key was deleted or overwritten, or its time was
	// up. The error found wraps it and says which, and wraps
	// [session.ErrExpired], [session.ErrClosed] or [ErrMaxHold] where that was it.
	ErrLost = errors.New("lock: lost")

	// ErrReleased is why a lock is not held any more after Unlock.
	ErrReleased = errors.New("lock: released")

	// ErrMaxHold is why a lock is not held any more after the time that
	// [Held.Limit] gave it. It comes with ErrLost.
	ErrMaxHold = errors.New("the longest time for the hold has passed")

	// ErrUnconfirmed is the error of an Unlock that etcd did not confirm in
	// time. The lock may still be taken; the session goes on trying to release
	// it, and it is free at the end of the session's lease at the latest.
	ErrUnconfirmed = errors.New("lock: the release is not confirmed yet")
)

// A Held is one hold of a lock, from the call that got it until Unlock or loss.
// It is safe for concurrent use. A hold that is over stays over: a new one has a
// new, higher token.
type Held struct {
	claim    *claim
	resource string

	limits limits
	unlock unlock
}

var errNeverHeld = fmt.Errorf("%w: this Held came from no Lock or TryLock, so there is nothing to release", ErrLost)

// Token returns the fencing token: the mod revision of the lock's key, captured
// when the lock was taken and never read again. Later holders have larger ones.
// Every write to what the lock protects goes through a guard with it.
func (h *Held) Token() guard.Token {
	if h.never() {
		return 0
	}
	return guard.Token(h.claim.rev)
}

// Resource returns the name to hand to guards: the lock's name, in which "%" and
// "#" are written as "%25" and "%23".
func (h *Held) Resource() string {
	if h.never() {
		return ""
	}
	return h.resource
}

// Key returns the lock's key in etcd, for transactions that are to succeed only
// while it is held: compare its mod revision with Token.
func (h *Held) Key() string {
	if h.never() {
		return ""
	}
	return h.claim.key
}

// Context is for the work done under the lock. It has the values of Lock's ctx,
// carries Resource and Token for [guard.FromContext], and ends when the lock is
// lost (context.Cause wraps [ErrLost] and says why) or released ([ErrReleased]).
// The end of Lock's ctx does not end it.
//
// After a pause of the process it may end a moment late. [Held.Err] does not, and
// the guard covers what is already under way.
func (h *Held) Context() context.Context {
	if h.never() {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(errNeverHeld)
		return ctx
	}
	return h.claim.ctx
}

// Err returns nil while the lock is held, else an error that wraps [ErrLost] or
// [ErrReleased]. It looks at the clock and does no I/O: call it before each step
// of long work. nil is no promise that the next write arrives in time; only a
// guard knows.
func (h *Held) Err() error {
	if h.never() {
		return errNeverHeld
	}
	c := h.claim
	if c.ctx.Err() == nil {
		if err := c.lease.Err(); err != nil {
			c.end(lostBecause(c.name, err))
		}
		h.checkLimit()
	}
	return context.Cause(c.ctx)
}

func (h *Held) never() bool { return h == nil || h.claim == nil }

// limits is the end that Limit has set.
type limits struct {
	mu       sync.Mutex
	timer    *time.Timer   // guarded by mu
	deadline time.Duration // on the lease's clock; guarded by mu
	length   time.Duration // for the error; guarded by mu
}

// Limit makes the hold end d from now whatever the work does: Context ends with a
// cause that wraps [ErrMaxHold] and [ErrLost], and the lock is released in the
// background, so that one stuck job does not hold up all others for as long as
// its process lives. A later call replaces the limit; d of 0 or less ends the
// hold at once. As after any loss, guarded writes that were accepted stand.
func (h *Held) Limit(d time.Duration) {
	if h.never() {
		return
	}
	h.limits.mu.Lock()
	if h.limits.timer != nil {
		h.limits.timer.Stop()
	}
	h.limits.length, h.limits.deadline = d, h.claim.lease.Now()+max(d, 0)
	if h.claim.ctx.Err() == nil {
		h.limits.timer = time.AfterFunc(d, h.checkLimit)
	}
	h.limits.mu.Unlock()
	h.checkLimit()
}

// checkLimit ends the hold if its time is up.
func (h *Held) checkLimit() {
	h.limits.mu.Lock()
	if h.limits.timer == nil {
		h.limits.mu.Unlock()
		return
	}
	length, left := h.limits.length, h.limits.deadline-h.claim.lease.Now()
	if left > 0 {
		h.limits.timer.Reset(left)
	}
	h.limits.mu.Unlock()
	if left <= 0 {
		h.expire(lostBecause(h.claim.name, fmt.Errorf("%w: %v", ErrMaxHold, length)))
	}
}
