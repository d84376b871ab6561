package lock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

// https://github.com/tristanls/dynamodb-lock-client/issues/1, https://github.com/swarthy/redis-semaphore/pull/206: a heartbeat under way
// at the release brought the lock back, or its failure was reported as a loss.
func TestRenewalAndKeyCheckThatMeetTheReleaseAreNoLoss(t *testing.T) {
	ns := namespace(t)
	faults, c := faulty(t)
	for range 200 {
		core, logs := observer.New(zap.WarnLevel)
		s := open(t, c, session.Options{Namespace: ns, Logger: zap.New(core)})
		h := mustLock(t, lock.NewMutex(s, "job"))
		var wg sync.WaitGroup
		wg.Go(func() { s.Internal().RenewNow(t.Context()) })
		wg.Go(func() { lock.CheckKeyNow(h) })
		if err := h.Unlock(); err != nil {
			t.Fatalf("Unlock: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		calls := asked(faults)
		wg.Wait()
		if cause := context.Cause(h.Context()); !errors.Is(cause, lock.ErrReleased) || errors.Is(cause, lock.ErrLost) || h.Err() != cause {
			t.Fatalf("the hold ended with %v", cause)
		}
		if n := logs.Len(); n > 0 {
			t.Fatalf("%d warnings: %v", n, logs.All())
		}
		if now := asked(faults); now != calls {
			t.Fatalf("%d calls after Close", now-calls)
		}
	}
}

// asked counts what went out, but on streams of watches: these the client opens and ends by itself, also after the last watch.
func asked(f *etcdtest.Faults) (n int) {
	for _, method := range []string{"Range", "Put", "DeleteRange", "Txn", "LeaseGrant", "LeaseRevoke", "LeaseTimeToLive", "LeaseKeepAlive"} {
		c := f.Count(method)
		n += c.Calls + c.Sent
	}
	return n
}

// The same when the check of the own key finds it gone before the release knows that it has worked.
func TestKeyCheckThatFindsTheKeyReleasedIsNoLoss(t *testing.T) {
	ns := namespace(t)
	faults, c := faulty(t)
	s := open(t, c, session.Options{Namespace: ns})
	h := mustLock(t, lock.NewMutex(s, "job"))
	check := faults.Pause("Range") // the monitor's first look
	receive(t, check.Reached())
	faults.Do("Txn", 1, func(ctx context.Context, call *etcdtest.Call) error {
		err := call.Send(ctx)
		check.Release()
		time.Sleep(100 * time.Millisecond)
		return err
	})
	mustUnlock(t, h)
	if cause := context.Cause(h.Context()); !errors.Is(cause, lock.ErrReleased) {
		t.Errorf("the hold ended with %v", cause)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if cause := context.Cause(h.Context()); !errors.Is(cause, lock.ErrReleased) || h.Err() != cause {
		t.Errorf("after Close the hold ended with %v, Err says %v", cause, h.Err())
	}
}

// https://github.com/etcd-io/etcd/pull/7007, https://github.com/etcd-io/etcd/issues/6681: closing the client first left the lock for a
// whole TTL, and nobody was told.
func TestClientThatIsClosedFirstIsALossAndNoHang(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	c, err := cluster.NewClient(login)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, c, session.Options{Namespace: ns, TTL: 2 * time.Second})
	m := lock.NewMutex(s, "job")
	h, again := mustLock(t, m), goLock(t.Context(), m)
	eventually(t, "one waits", func() bool { return lock.LocalWaiters(m) == 2 })
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if cause := awaitLoss(t, h, time.Second); !errors.Is(cause, session.ErrExpired) {
		t.Errorf("lost because of %v", cause)
	}
	if got := receiveWithin(t, again, time.Second); !errors.Is(got.err, session.ErrExpired) {
		t.Errorf("the waiter: %v, %v", got.h, got.err)
	}
	began := time.Now()
	if err := h.Unlock(); !errors.Is(err, lock.ErrLost) || !errors.Is(err, session.ErrExpired) {
		t.Errorf("Unlock: %v", err)
	}
	if _, err := m.TryLock(t.Context()); !errors.Is(err, session.ErrExpired) {
		t.Errorf("TryLock: %v", err)
	}
	if err := s.Close(); err == nil || !strings.Contains(err.Error(), "lapses") {
		t.Errorf("Close: %v", err)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("Unlock, TryLock and Close took %v", took)
	}
	etcdtest.AssertEmpty(t, direct, ns, 10*time.Second)
}

func TestCloseOfTheSessionEndsHoldsAndWaits(t *testing.T) {
	ns := namespace(t)
	s := open(t, direct, session.Options{Namespace: ns})
	m := lock.NewMutex(s, "job")
	h := mustLock(t, m)
	other := mustLock(t, lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), "taken"))
	var waiters []<-chan outcome
	for _, name := range []string{"job", "taken", "taken"} { // one waits in etcd, two in the process
		waiters = append(waiters, goLock(t.Context(), lock.NewMutex(s, name)))
	}
	awaitQueue(t, ns, "taken", 2)
	eventually(t, "all wait", func() bool { return lock.LocalWaiters(m) == 2 && lock.LocalWaiters(lock.NewMutex(s, "taken")) == 2 })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, w := range waiters {
		if got := receiveWithin(t, w, time.Second); !errors.Is(got.err, session.ErrClosed) {
			t.Errorf("a waiter: %v, %v", got.h, got.err)
		}
	}
	if cause := awaitLoss(t, h, time.Second); !errors.Is(cause, session.ErrClosed) {
		t.Errorf("lost because of %v", cause)
	}
	if err := h.Unlock(); !errors.Is(err, lock.ErrLost) || !errors.Is(err, session.ErrClosed) {
		t.Errorf("Unlock: %v", err)
	}
	// Everything of the session is free at once.
	if kvs := queue(t, ns, "job"); len(kvs) > 0 {
		t.Errorf("the queue holds %v", kvs)
	}
	mustUnlock(t, other)
}
