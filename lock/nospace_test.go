package lock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

// etcd looks at its quota twice: before a transaction, and again after it has applied it, when it still answers that
// there is no space. https://github.com/etcd-io/etcd/blob/main/server/etcdserver/apply/quota.go
func TestLockThatWasRefusedForSpaceAfterItsPutLeavesNoKey(t *testing.T) {
	faults, client := faulty(t)
	ns := namespace(t)
	s := open(t, client, session.Options{Namespace: ns})
	faults.Do("Txn", 1, func(ctx context.Context, call *etcdtest.Call) error {
		if err := call.Send(ctx); err != nil {
			return err
		}
		return rpctypes.ErrGRPCNoSpace
	})
	if _, err := lock.NewMutex(s, "job").Lock(t.Context()); !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Fatalf("Lock = %v, want ErrNoSpace", err)
	}
	expectFree(t, ns, "job")
}

// Without space etcd takes no puts, so the epoch cannot move, but it takes deletes.
func TestKeyOfALostReplyIsDeletedThoughThereIsNoSpace(t *testing.T) {
	faults, client := faulty(t)
	ns := namespace(t)
	s := open(t, client, session.Options{Namespace: ns})
	ctx, cancel := context.WithCancel(t.Context())
	faults.Do("Put", -1, func(context.Context, *etcdtest.Call) error { return rpctypes.ErrGRPCNoSpace })
	faults.Do("Txn", 1, func(sending context.Context, call *etcdtest.Call) error {
		defer cancel()
		if err := call.Send(sending); err != nil {
			return err
		}
		return etcdtest.ErrReplyLost
	})
	if _, err := lock.NewMutex(s, "job").Lock(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("Lock = %v, want Canceled", err)
	}
	eventually(t, "the key is gone", func() bool { return len(queue(t, ns, "job")) == 0 })
	faults.Clear()
}

func TestUnlockDoesNotTakeAnOverwrittenKeyForAReleasedOne(t *testing.T) {
	faults, client := faulty(t)
	ns := namespace(t)
	s := open(t, client, session.Options{Namespace: ns})
	h := mustLock(t, lock.NewMutex(s, "job"))
	faults.Do("Txn", 1, func(ctx context.Context, call *etcdtest.Call) error {
		if _, err := direct.Put(ctx, h.Key(), "somebody's", clientv3.WithLease(s.Lease())); err != nil {
			t.Error(err)
		}
		return etcdtest.ErrReplyLost // and never sent
	})
	if err := h.Unlock(); !errors.Is(err, lock.ErrLost) {
		t.Errorf("Unlock = %v, want ErrLost", err)
	}
	expectFree(t, ns, "job")
}

func TestLongLeaseIsNoReasonToWaitLongForOneReply(t *testing.T) {
	faults, client := faulty(t)
	hang := func(ctx context.Context, _ *etcdtest.Call) error { <-ctx.Done(); return ctx.Err() }
	faults.Do("LeaseGrant", 1, hang)
	s := open(t, client, session.Options{TTL: time.Minute, Namespace: namespace(t)})
	h := mustLock(t, lock.NewMutex(s, "job"))
	faults.Do("Txn", 1, hang)
	mustUnlock(t, h)
}
