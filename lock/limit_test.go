package lock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/internal/clock"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

func TestLimitEndsTheHoldAndFreesTheLock(t *testing.T) {
	ns := namespace(t)
	s := open(t, direct, session.Options{Namespace: ns})
	h := mustLock(t, lock.NewMutex(s, "job"))
	h.Limit(100 * time.Millisecond)
	if err := h.Err(); err != nil {
		t.Errorf("at once: %v", err)
	}
	cause := awaitLoss(t, h, 2*time.Second)
	if !errors.Is(cause, lock.ErrMaxHold) || errors.Is(cause, session.ErrExpired) {
		t.Errorf("lost because of %v", cause)
	}
	// Nobody has called Unlock.
	expectFree(t, ns, "job")
	if err := h.Unlock(); !errors.Is(err, lock.ErrMaxHold) || !errors.Is(err, lock.ErrLost) {
		t.Errorf("Unlock: %v", err)
	}
	if err := s.Err(); err != nil {
		t.Errorf("the session: %v", err)
	}
}

// clocked opens a session whose clock the test moves.
func clocked(t *testing.T, ns string) (*session.Session, *atomic.Int64) {
	t.Helper()
	now := new(atomic.Int64)
	ctx := clock.With(t.Context(), func() time.Duration { return time.Duration(now.Load()) })
	return openWith(t, ctx, direct, session.Options{Namespace: ns}), now
}

// Timers stand still while the machine sleeps; Err looks at a clock that does not.
func TestLimitIsSeenOnTheClockBeforeAnyTimer(t *testing.T) {
	ns := namespace(t)
	s, now := clocked(t, ns)
	h := mustLock(t, lock.NewMutex(s, "job"))
	h.Limit(10 * time.Second)
	now.Store(int64(10*time.Second - 1))
	if err := h.Err(); err != nil {
		t.Errorf("a moment before: %v", err)
	}
	now.Store(int64(10 * time.Second))
	if err := h.Err(); !errors.Is(err, lock.ErrMaxHold) {
		t.Errorf("at the end: %v", err)
	}
	etcdtest.AssertEmpty(t, direct, ns+"job%/", 0)
	if err := h.Unlock(); !errors.Is(err, lock.ErrMaxHold) {
		t.Errorf("Unlock: %v", err)
	}
}

func TestLaterLimitReplacesTheEarlier(t *testing.T) {
	ns := namespace(t)
	s, now := clocked(t, ns)
	m := lock.NewMutex(s, "job")
	h := mustLock(t, m)
	h.Limit(time.Second)
	h.Limit(20 * time.Second) // longer
	now.Store(int64(5 * time.Second))
	if err := h.Err(); err != nil {
		t.Errorf("after the replaced limit: %v", err)
	}
	h.Limit(time.Second) // shorter, counted from now
	now.Store(int64(6 * time.Second))
	if err := h.Err(); !errors.Is(err, lock.ErrMaxHold) {
		t.Errorf("after the last limit: %v", err)
	}
	_ = h.Unlock()
	for _, d := range []time.Duration{0, -time.Second} {
		h = mustLock(t, m)
		h.Limit(d)
		if cause := context.Cause(h.Context()); !errors.Is(cause, lock.ErrMaxHold) {
			t.Errorf("Limit(%v): %v", d, cause)
		}
		_ = h.Unlock()
	}
}

func TestLimitOfAnEndedHoldDoesNothing(t *testing.T) {
	ns := namespace(t)
	m := lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), "job")
	h := mustLock(t, m)
	h.Limit(30 * time.Millisecond)
	mustUnlock(t, h)
	next := mustLock(t, m)
	h.Limit(0)
	time.Sleep(60 * time.Millisecond) // the first limit's time
	if err := h.Err(); !errors.Is(err, lock.ErrReleased) || errors.Is(err, lock.ErrLost) {
		t.Errorf("the ended hold: %v", err)
	}
	if err := next.Err(); err != nil || find(t, next.Key()) == nil {
		t.Errorf("the next hold: %v, key %v", err, find(t, next.Key()))
	}
	mustUnlock(t, next)
}

// Limit and Unlock meet: the key goes once, and the error tells which it was.
func TestLimitAndUnlockAtOneTime(t *testing.T) {
	ns := namespace(t)
	m := lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), "job")
	var released, limited int
	for range rounds(500) {
		h := mustLock(t, m)
		ended := make(chan struct{})
		go func() { h.Limit(0); close(ended) }()
		switch err := h.Unlock(); {
		case err == nil && errors.Is(context.Cause(h.Context()), lock.ErrReleased):
			released++
		case errors.Is(err, lock.ErrMaxHold) && errors.Is(context.Cause(h.Context()), lock.ErrMaxHold):
			limited++
		default:
			t.Errorf("Unlock: %v, the context ended with %v", err, context.Cause(h.Context()))
		}
		<-ended
	}
	t.Logf("%d were released, %d limited", released, limited)
	expectFree(t, ns, "job")
}
