package lock_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

// https://github.com/etcd-io/etcd/issues/22082: a release that was repeated after its reply had been lost deleted the lock that
// the same session had taken meanwhile.
func TestRepeatedReleaseLeavesTheSessionsNextLockAlone(t *testing.T) {
	ns := namespace(t)
	faults, c := faulty(t)
	m := lock.NewMutex(open(t, c, session.Options{Namespace: ns}), "job")
	first := mustLock(t, m)
	var second *lock.Held
	faults.Do("Txn", 1, func(ctx context.Context, call *etcdtest.Call) error {
		if err := call.Send(ctx); err != nil {
			return err
		}
		second = mustLock(t, m) // before the first Unlock knows that it has worked
		return etcdtest.ErrReplyLost
	})
	mustUnlock(t, first)
	check := func() {
		t.Helper()
		kv := find(t, second.Key())
		if kv == nil || kv.ModRevision != int64(second.Token()) || second.Err() != nil {
			t.Fatalf("the second hold: key %v, %v", kv, second.Err())
		}
	}
	check()
	mustUnlock(t, first) // and once more
	check()
	mustUnlock(t, second)

	// With the very same key name.
	third := mustLock(t, m)
	mustUnlock(t, third)
	fourth := mustLock(t, m)
	if third.Key() != fourth.Key() || third.Token() == fourth.Token() {
		t.Errorf("keys %s and %s, tokens %d and %d", third.Key(), fourth.Key(), third.Token(), fourth.Token())
	}
	before := faults.Count("Txn").Calls // the fourth's key may be watched by now
	mustUnlock(t, third)
	if n := faults.Count("Txn").Calls - before; n != 0 {
		t.Errorf("a repeated Unlock made %d transactions", n)
	}
	if kv := find(t, fourth.Key()); kv == nil || fourth.Err() != nil {
		t.Errorf("the fourth hold: key %v, %v", kv, fourth.Err())
	}
	mustUnlock(t, fourth)
}

// A lost reply does not make a loss of a release.
func TestUnlockWhoseRepliesAreLostIsARelease(t *testing.T) {
	ns := namespace(t)
	faults, c := faulty(t)
	m := lock.NewMutex(open(t, c, session.Options{Namespace: ns}), "job")
	for _, lost := range []int{1, 3} {
		h := mustLock(t, m)
		faults.LoseReplies("Txn", lost)
		if err := h.Unlock(); err != nil {
			t.Errorf("%d replies lost: %v", lost, err)
		}
		if kvs := queue(t, ns, "job"); len(kvs) > 0 {
			t.Errorf("%d replies lost: the queue holds %v", lost, kvs)
		}
		if cause := context.Cause(h.Context()); !errors.Is(cause, lock.ErrReleased) || errors.Is(cause, lock.ErrLost) {
			t.Errorf("%d replies lost: the context ended with %v", lost, cause)
		}
	}
}

// https://github.com/etcd-io/etcd/issues/22123, https://github.com/caddyserver/certmagic/issues/235: a release that had failed
// forgot that it held, so the next one did nothing and said nil.
func TestFailedReleaseDoesNotForgetThatItHolds(t *testing.T) {
	ns := namespace(t)
	faults, c := faulty(t)
	m := lock.NewMutex(open(t, c, session.Options{Namespace: ns}), "job")
	h := mustLock(t, m)
	// Refused for good, so Unlock gives up at once; the sweeper's attempt waits.
	faults.Fail("Txn", 1, rpctypes.ErrGRPCPermissionDenied)
	pause := faults.Pause("Txn")
	err := h.Unlock()
	if !errors.Is(err, lock.ErrUnconfirmed) || !errors.Is(err, rpctypes.ErrPermissionDenied) || errors.Is(err, lock.ErrLost) {
		t.Errorf("Unlock: %v", err)
	}
	receive(t, pause.Reached())
	if kvs := queue(t, ns, "job"); len(kvs) != 1 {
		t.Fatalf("the queue holds %v", kvs)
	}
	again := make(chan error)
	go func() { again <- h.Unlock() }()
	select {
	case err := <-again:
		t.Fatalf("the second Unlock did not wait: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	pause.Release()
	if err := receive(t, again); err != nil {
		t.Errorf("the second Unlock: %v", err)
	}
	if kvs := queue(t, ns, "job"); len(kvs) > 0 {
		t.Errorf("the queue holds %v", kvs)
	}
	if err := h.Unlock(); err != nil {
		t.Errorf("the third Unlock: %v", err)
	}
}

// What the sweeper has confirmed stays confirmed when the session ends.
func TestReleaseThatWasConfirmedLaterSurvivesTheSession(t *testing.T) {
	ns := namespace(t)
	faults, c := faulty(t)
	s := open(t, c, session.Options{Namespace: ns})
	h := mustLock(t, lock.NewMutex(s, "job"))
	faults.Fail("Txn", 1, rpctypes.ErrGRPCPermissionDenied)
	if err := h.Unlock(); !errors.Is(err, lock.ErrUnconfirmed) {
		t.Errorf("Unlock: %v", err)
	}
	etcdtest.AssertEmpty(t, direct, ns+"job%/", 0)
	eventually(t, "the reply is handled", func() bool { return faults.Count("Txn").Calls >= 3 && lock.Entered(h) == 0 })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := h.Unlock(); err != nil {
		t.Errorf("Unlock after Close: %v", err)
	}
}

func TestUnlockDoesNotWaitLongerThanItsBound(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	faults, c := faulty(t)
	h := mustLock(t, lock.NewMutex(open(t, c, session.Options{Namespace: ns}), "job"))
	faults.Fail("Txn", -1, etcdtest.ErrReplyLost)
	began := time.Now()
	err := h.Unlock()
	if took := time.Since(began); !errors.Is(err, lock.ErrUnconfirmed) || took < 4*time.Second || took > 8*time.Second {
		t.Errorf("Unlock after %v: %v", took, err)
	}
	if err := h.Err(); !errors.Is(err, lock.ErrReleased) {
		t.Errorf("Err: %v", err)
	}
	faults.Clear()
	if err := h.Unlock(); err != nil {
		t.Errorf("the second Unlock: %v", err)
	}
	expectFree(t, ns, "job")
}

// The end of the lease bounds it, too: then nothing is left to release.
func TestUnlockDoesNotWaitLongerThanTheLease(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	faults, c := faulty(t)
	silence := silenceRenewals(faults)
	h := mustLock(t, lock.NewMutex(open(t, c, session.Options{Namespace: ns, TTL: 2 * time.Second}), "job"))
	faults.Fail("Txn", -1, etcdtest.ErrReplyLost)
	silence.Store(true)
	began := time.Now()
	err := h.Unlock()
	if took := time.Since(began); !errors.Is(err, lock.ErrUnconfirmed) || took > 4*time.Second {
		t.Errorf("Unlock after %v: %v", took, err)
	}
	faults.Clear()
}

// https://github.com/etcd-io/etcd/pull/14652, https://github.com/go-redsync/redsync/issues/125: an Unlock of what was never locked
// sent a delete of an empty key, or panicked.
func TestUnlockOfWhatWasNeverHeldMakesNoRequest(t *testing.T) {
	var nilHeld *lock.Held
	for _, h := range []*lock.Held{nilHeld, {}} {
		if err := h.Unlock(); !errors.Is(err, lock.ErrLost) {
			t.Errorf("Unlock: %v", err)
		}
		if err := h.Err(); !errors.Is(err, lock.ErrLost) {
			t.Errorf("Err: %v", err)
		}
		if h.Token() != 0 || h.Key() != "" || h.Resource() != "" {
			t.Errorf("%d, %q, %q", h.Token(), h.Key(), h.Resource())
		}
		if ctx := h.Context(); ctx.Err() == nil || !errors.Is(context.Cause(ctx), lock.ErrLost) {
			t.Errorf("Context: %v", context.Cause(ctx))
		}
		h.Limit(time.Second)
	}
}

func TestUnlockFromManyGoroutinesIsOneRelease(t *testing.T) {
	ns := namespace(t)
	faults, c := faulty(t)
	s := open(t, c, session.Options{Namespace: ns})
	m, other := lock.NewMutex(s, "job"), lock.NewMutex(s, "other")
	h, bystander := mustLock(t, m), mustLock(t, other)
	before := faults.Count("Txn").Calls // the bystander's key may be watched meanwhile
	var bad atomic.Int32
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if h.Unlock() != nil {
				bad.Add(1)
			}
		})
	}
	wg.Wait()
	if n := faults.Count("Txn").Calls - before; n != 1 || bad.Load() > 0 {
		t.Errorf("%d transactions, %d errors", n, bad.Load())
	}
	if kv := find(t, bystander.Key()); kv == nil || bystander.Err() != nil {
		t.Errorf("another hold of the session: key %v, %v", kv, bystander.Err())
	}
	// A waiter's hold is not the first one's to release.
	first := mustLock(t, m)
	waiter := goLock(t.Context(), m)
	mustUnlock(t, first)
	second := receive(t, waiter)
	if second.err != nil {
		t.Fatal(second.err)
	}
	for range 3 {
		mustUnlock(t, first)
	}
	if kv := find(t, second.h.Key()); kv == nil || second.h.Err() != nil {
		t.Errorf("the second hold: key %v, %v", kv, second.h.Err())
	}
	mustUnlock(t, second.h)
	mustUnlock(t, bystander)
}
