package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencedlock/fencedlock/guard"
)

// Do runs fn while it holds the lock, and gives the lock back when fn has
// returned or panicked; a panic goes on. It is the form to prefer: the lock
// cannot be forgotten, and Do waits for fn even when the lock is lost, so that
// nothing of fn runs on unnoticed.
//
// fn's context is that of the hold, see [Held.Context], and has the deadline and
// the end of ctx as well. fn should return soon after it has ended, and pass h.Resource() and
// h.Token(), or its context, to a guard with every write.
//
// The error says whether fn ran. If it did not, the error is that of
// [Mutex.Lock]. If it did, it wraps what fn returned, and [ErrLost] when the lock
// was lost before fn had returned, even if fn returned nil: what was written
// without a guard may then have corrupted what another holder wrote, while
// guarded writes that were accepted stand. A release that is not confirmed is
// [ErrUnconfirmed]. When a guard refused the token although the lock is still
// held, the error says which faults can cause that, and how to get out.
func (m *Mutex) Do(ctx context.Context, fn func(ctx context.Context, h *Held) error) error {
	if fn == nil {
		return errors.New("lock: fn is nil")
	}
	h, err := m.Lock(ctx)
	if err != nil {
		return fmt.Errorf("lock: fn was not run: %w", err)
	}
	fnCtx, cancel := under(h.Context(), ctx)
	defer cancel()

	returned := false
	defer func() {
		if !returned { // a panic, or runtime.Goexit
			_ = h.Unlock()
		}
	}()
	err = fn(fnCtx, h)
	returned = true
	return h.finish(err)
}

// under returns a context with the values of hold that ends with either of the
// two, and says why as that one does.
func under(hold, caller context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(hold)
	release := func() {}
	if deadline, ok := caller.Deadline(); ok {
		ctx, release = context.WithDeadlineCause(ctx, deadline, context.Cause(caller))
	}
	stop := context.AfterFunc(caller, func() {
		if !errors.Is(caller.Err(), context.DeadlineExceeded) { // that one is ctx's own, too
			cancel(context.Cause(caller))
		}
	})
	return ctx, func() {
		stop()
		release()
		cancel(nil)
	}
}

// finish releases the lock after fn, and tells what is to be said of both.
func (h *Held) finish(fnErr error) error {
	blame := h.blame(fnErr)
	lost := h.Err()
	unlockErr := h.Unlock()
	if lost == nil || errors.Is(lost, ErrReleased) { // the latter: by fn
		lost = nil
		if errors.Is(unlockErr, ErrLost) {
			lost = unlockErr
		}
	}
	var also error
	switch {
	case lost != nil:
		also = fmt.Errorf("the lock was lost while fn ran (guarded writes that were accepted stand): %w", lost)
	case blame != nil && unlockErr != nil:
		also = fmt.Errorf("%w; %w", blame, unlockErr)
	case blame != nil:
		also = blame
	default:
		also = unlockErr
	}
	name := h.claim.name
	switch {
	case fnErr != nil && also != nil:
		return fmt.Errorf("lock: %q: fn ran and failed: %w; %w", name, fnErr, also)
	case fnErr != nil:
		return fmt.Errorf("lock: %q: fn ran and failed: %w", name, fnErr)
	case also != nil:
		return fmt.Errorf("lock: %q: fn ran: %w", name, also)
	}
	return nil
}

// blame finds out why a guard refused the token of a lock that is held. The end
// of the caller's context does not hide that.
func (h *Held) blame(fnErr error) error {
	var stale *guard.StaleError
	if !errors.As(fnErr, &stale) || stale.Token != h.Token() || h.Err() != nil {
		return nil
	}
	c := h.claim
	found, err := c.lease.Find(c.ctx, c.key)
	if err != nil || found == nil || found.ModRevision != c.rev {
		return nil // the lock is lost after all, or etcd cannot be asked
	}
	return fmt.Errorf("token %d is stale although the lock is held: tokens went back (etcd restored from a backup without "+
		"--bump-revision, or two etcd clusters lock %q), or another lock guards %[2]q too. Marks are never "+
		"lowered; for tokens that went back the way out is to lift them above the mark, %d: etcdutl snapshot restore "+
		"--bump-revision %d --mark-compacted", int64(h.Token()), stale.Resource, int64(stale.Highest), bump(stale))
}

// bump lifts the next token far above the mark.
func bump(stale *guard.StaleError) int64 {
	by := int64(1_000_000_000)
	for by/2 < int64(stale.Highest-stale.Token) && by < 1_000_000_000_000_000_000 { // what 64 bits have room for
		by *= 10
	}
	return by
}
