package lock_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

type ctxKey struct{}

func TestDoRunsFnUnderTheLockAndReleasesIt(t *testing.T) {
	ns := namespace(t)
	m := lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), "a%b#c")
	ctx := context.WithValue(t.Context(), ctxKey{}, "kept")
	err := m.Do(ctx, func(ctx context.Context, h *lock.Held) error {
		resource, tok, ok := guard.FromContext(ctx)
		if !ok || tok != h.Token() || resource != h.Resource() || resource != "a%25b%23c" {
			t.Errorf("the context carries %q, %d, %t; the hold is %q, %d", resource, tok, ok, h.Resource(), h.Token())
		}
		if ctx.Value(ctxKey{}) != "kept" || h.Context().Value(ctxKey{}) != "kept" {
			t.Error("values of the caller's context are gone")
		}
		if _, err := m.TryLock(ctx); !errors.Is(err, lock.ErrLocked) {
			t.Errorf("TryLock in fn: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	h, err := m.TryLock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mustUnlock(t, h)

	wrong := errors.New("wrong")
	err = m.Do(ctx, func(context.Context, *lock.Held) error { return wrong })
	if !errors.Is(err, wrong) || !strings.Contains(err.Error(), "fn ran and failed") || errors.Is(err, lock.ErrLost) {
		t.Errorf("Do: %v", err)
	}
	// fn may release by itself, to tell the end of its work from that of its cleaning up.
	if err := m.Do(ctx, func(_ context.Context, h *lock.Held) error { return h.Unlock() }); err != nil {
		t.Errorf("Do with Unlock in fn: %v", err)
	}
}

func TestPanicInFnUnlocksAndGoesOn(t *testing.T) {
	ns := namespace(t)
	m := lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), "job")
	func() {
		defer func() {
			if r := recover(); r != "boom" {
				t.Errorf("recovered %v", r)
			}
		}()
		_ = m.Do(t.Context(), func(context.Context, *lock.Held) error { panic("boom") })
	}()
	expectFree(t, ns, "job")
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = m.Do(t.Context(), func(context.Context, *lock.Held) error { runtime.Goexit(); return nil })
		t.Error("Goexit did not go on")
	}()
	receive(t, done)
	expectFree(t, ns, "job")
}

func TestCallersContextEndsFnsAndDoWaitsForFn(t *testing.T) {
	ns := namespace(t)
	m := lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), "job")
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	returned := false
	err := m.Do(ctx, func(ctx context.Context, h *lock.Held) error {
		cancel(why)
		receive(t, ctx.Done())
		if !errors.Is(context.Cause(ctx), why) {
			t.Errorf("fn's context ended with %v", context.Cause(ctx))
		}
		if err := h.Err(); err != nil || h.Context().Err() != nil {
			t.Errorf("the hold: %v, %v", err, h.Context().Err())
		}
		if _, err := m.TryLock(t.Context()); !errors.Is(err, lock.ErrLocked) {
			t.Errorf("the lock went before fn had returned: %v", err)
		}
		returned = true
		return ctx.Err()
	})
	if !returned || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "fn ran") {
		t.Errorf("Do: %v, fn returned: %t", err, returned)
	}
	expectFree(t, ns, "job")
}

func TestLossWhileFnRunsIsReportedThoughFnReturnedNil(t *testing.T) {
	ns := namespace(t)
	m := lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), "job")
	own := errors.New("fn's own")
	for _, result := range []error{nil, own} {
		err := m.Do(t.Context(), func(ctx context.Context, h *lock.Held) error {
			remove(t, h.Key())
			receiveWithin(t, ctx.Done(), 2*time.Second)
			if !errors.Is(context.Cause(ctx), lock.ErrLost) {
				t.Errorf("fn's context ended with %v", context.Cause(ctx))
			}
			return result
		})
		if !errors.Is(err, lock.ErrLost) || result != nil && !errors.Is(err, result) ||
			!strings.Contains(err.Error(), "fn ran") || !strings.Contains(err.Error(), "guarded writes that were accepted stand") {
			t.Errorf("fn returned %v, Do %v", result, err)
		}
	}
	// The loss that only Unlock finds.
	err := m.Do(t.Context(), func(_ context.Context, h *lock.Held) error { remove(t, h.Key()); return nil })
	if !errors.Is(err, lock.ErrLost) || !strings.Contains(err.Error(), "fn ran") {
		t.Errorf("Do: %v", err)
	}
	expectFree(t, ns, "job")
}

func TestUnconfirmedReleaseIsReportedWhateverFnReturned(t *testing.T) {
	ns := namespace(t)
	faults, c := faulty(t)
	m := lock.NewMutex(open(t, c, session.Options{Namespace: ns}), "job")
	own := errors.New("fn's own")
	for _, result := range []error{nil, own} {
		err := m.Do(t.Context(), func(context.Context, *lock.Held) error {
			faults.Fail("Txn", 1, rpctypes.ErrGRPCPermissionDenied)
			return result
		})
		if !errors.Is(err, lock.ErrUnconfirmed) || result != nil && !errors.Is(err, result) || !strings.Contains(err.Error(), "fn ran") {
			t.Errorf("fn returned %v, Do %v", result, err)
		}
	}
	expectFree(t, ns, "job")
}

func TestFnThatDidNotRunIsSaidNotToHave(t *testing.T) {
	ns := namespace(t)
	m := lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), "job")
	h := mustLock(t, m)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	err := m.Do(ctx, func(context.Context, *lock.Held) error { t.Error("fn ran"); return nil })
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "fn was not run") {
		t.Errorf("Do: %v", err)
	}
	mustUnlock(t, h)
}

// A guard that refuses the token of a lock that is held has seen a higher one from somewhere else.
func TestStaleTokenOfALockThatIsHeldIsBlamed(t *testing.T) {
	ns := namespace(t)
	m := lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), "job")
	const blame = "--bump-revision"
	stale := func(h *lock.Held) error {
		return &guard.StaleError{Resource: "job", Token: h.Token(), Highest: h.Token() + 1}
	}

	err := m.Do(t.Context(), func(_ context.Context, h *lock.Held) error { return stale(h) })
	if !errors.Is(err, guard.ErrStale) || !strings.Contains(err.Error(), blame) {
		t.Errorf("while the key is there: %v", err)
	}
	for ahead, want := range map[guard.Token]string{1: " 1000000000 ", 499_999_999: " 1000000000 ", 1 << 40: " 10000000000000 ", 1 << 62: " 1000000000000000000 "} {
		err = m.Do(t.Context(), func(_ context.Context, h *lock.Held) error {
			return &guard.StaleError{Resource: "job", Token: h.Token(), Highest: h.Token() + ahead}
		})
		if err == nil || !strings.Contains(err.Error(), blame+want) {
			t.Errorf("with a mark that is %d ahead: %v", ahead, err)
		}
	}
	err = m.Do(t.Context(), func(_ context.Context, h *lock.Held) error { remove(t, h.Key()); return stale(h) })
	if !errors.Is(err, guard.ErrStale) || strings.Contains(err.Error(), blame) {
		t.Errorf("when the key is gone: %v", err)
	}
	err = m.Do(t.Context(), func(_ context.Context, h *lock.Held) error {
		return &guard.StaleError{Resource: "job", Token: h.Token() - 1, Highest: h.Token()}
	})
	if !errors.Is(err, guard.ErrStale) || strings.Contains(err.Error(), blame) {
		t.Errorf("for another token: %v", err)
	}
	// Also when the caller's context has ended.
	ctx, cancel := context.WithCancel(t.Context())
	err = m.Do(ctx, func(_ context.Context, h *lock.Held) error { cancel(); return stale(h) })
	if !errors.Is(err, guard.ErrStale) || !strings.Contains(err.Error(), blame) {
		t.Errorf("when the caller's context has ended: %v", err)
	}
}
