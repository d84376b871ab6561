package lock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

// https://github.com/etcd-io/etcd/issues/14758, https://github.com/etcd-io/etcd/issues/6848: a put without the lease made an orphan of
// the key, which outlived its holder.
func TestKeyThatIsOverwrittenWithoutItsLeaseIsALossAndIsNamed(t *testing.T) {
	ns := namespace(t)
	s := open(t, direct, session.Options{Namespace: ns})
	h := mustLock(t, lock.NewMutex(s, "job"))
	other := lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), "job")
	waiter := goLock(t.Context(), other)
	awaitQueue(t, ns, "job", 2)
	put(t, h.Key(), "my info")
	if cause := awaitLoss(t, h, 2*time.Second); !strings.Contains(cause.Error(), "written by somebody else") {
		t.Errorf("lost because of %v", cause)
	}
	if err := s.Err(); err != nil {
		t.Errorf("the session: %v", err)
	}
	if got := receive(t, waiter); got.err == nil || !strings.Contains(got.err.Error(), h.Key()) || !strings.Contains(got.err.Error(), "no lease") {
		t.Errorf("the waiter: %v", got.err)
	}
	if _, err := other.TryLock(t.Context()); !errors.Is(err, lock.ErrLocked) || !strings.Contains(err.Error(), "no lease") {
		t.Errorf("TryLock: %v", err)
	}
	// The holder's own name is the holder's to clean.
	if err := h.Unlock(); !errors.Is(err, lock.ErrLost) {
		t.Errorf("Unlock: %v", err)
	}
	etcdtest.AssertEmpty(t, direct, ns+"job%/", 0)
	expectFree(t, ns, "job")
}

// Nor does the key block others when it was overwritten in the last moment, or kept its lease, or was a waiter's.
func TestOverwrittenKeyDoesNotOutliveItsAcquisition(t *testing.T) {
	ns := namespace(t)
	faults, c := faulty(t)
	s := open(t, c, session.Options{Namespace: ns})
	m := lock.NewMutex(s, "job")
	h := mustLock(t, m)
	faults.Do("Txn", 1, func(ctx context.Context, call *etcdtest.Call) error {
		put(t, h.Key(), "my info", clientv3.WithIgnoreLease())
		return call.Send(ctx)
	})
	if err := h.Unlock(); !errors.Is(err, lock.ErrLost) {
		t.Errorf("Unlock: %v", err)
	}
	expectFree(t, ns, "job")

	h = mustLock(t, lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), "job"))
	waiter := goLock(t.Context(), m)
	put(t, string(awaitQueue(t, ns, "job", 2)[1].Key), "my info", clientv3.WithIgnoreLease())
	if got := receive(t, waiter); !errors.Is(got.err, lock.ErrLost) {
		t.Errorf("the waiter: %v, %v", got.h, got.err)
	}
	mustUnlock(t, h)
	expectFree(t, ns, "job")
}

// An orphan that nobody cleaned up before its session ended is there for good, and said to be.
func TestOrphanOfAClosedSessionIsNamed(t *testing.T) {
	ns := namespace(t)
	s := open(t, direct, session.Options{Namespace: ns})
	h := mustLock(t, lock.NewMutex(s, "job"))
	put(t, h.Key(), "my info")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), "job").Lock(ctx)
	if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), h.Key()) {
		t.Errorf("Lock: %v", err)
	}
	remove(t, h.Key())
}
