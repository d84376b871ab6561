package lock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/internal/clock"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

// https://github.com/etcd-io/etcd/issues/19597: a waiter whose lease is gone has no place in the queue any more and must not
// go on waiting for the holder.
func TestWaiterWhoseLeaseIsGoneStopsWaiting(t *testing.T) {
	ns := namespace(t)
	holder := mustLock(t, lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), "job"))
	s := open(t, direct, session.Options{Namespace: ns})
	waiter := goLock(t.Context(), lock.NewMutex(s, "job"))
	awaitQueue(t, ns, "job", 2)
	revoke(t, s)
	got := receiveWithin(t, waiter, 3*time.Second)
	if got.h != nil || !errors.Is(got.err, session.ErrExpired) {
		t.Errorf("Lock = %v, %v", got.h, got.err)
	}
	if err := holder.Err(); err != nil {
		t.Errorf("the holder: %v", err)
	}
	awaitQueue(t, ns, "job", 1)
	mustUnlock(t, holder)
}

func TestWaiterWhoseKeyIsDeletedStopsWaiting(t *testing.T) {
	ns := namespace(t)
	holder := mustLock(t, lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), "job"))
	s := open(t, direct, session.Options{Namespace: ns})
	waiter := goLock(t.Context(), lock.NewMutex(s, "job"))
	remove(t, string(awaitQueue(t, ns, "job", 2)[1].Key))
	got := receiveWithin(t, waiter, 3*time.Second)
	if got.h != nil || !errors.Is(got.err, lock.ErrLost) || s.Err() != nil {
		t.Errorf("Lock = %v, %v; the session: %v", got.h, got.err, s.Err())
	}
	mustUnlock(t, holder)
	// The session is fine, and so is its next acquisition.
	mustUnlock(t, mustLock(t, lock.NewMutex(s, "job")))
}

// https://github.com/etcd-io/etcd/issues/11456, https://etcd.io/blog/2020/jepsen-343-results/: the lock was handed over although
// the lease had expired by then.
func TestLockThatComesAfterTheDeadlineIsNotHandedOut(t *testing.T) {
	ns := namespace(t)
	holder := mustLock(t, lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), "job"))
	var now atomic.Int64
	ctx := clock.With(t.Context(), func() time.Duration { return time.Duration(now.Load()) })
	faults, c := faulty(t)
	s := openWith(t, ctx, c, session.Options{Namespace: ns})
	// The reply that says that nobody is ahead any more takes longer than the lease.
	faults.Do("Range", -1, func(ctx context.Context, call *etcdtest.Call) error {
		err := call.Send(ctx)
		if r := call.Reply.(*pb.RangeResponse); err == nil && len(r.Kvs) == 1 && strings.HasPrefix(string(r.Kvs[0].Key), ns+"job%/") &&
			len(call.Request.(*pb.RangeRequest).RangeEnd) > 0 {
			now.Store(int64(2 * time.Minute))
		}
		return err
	})
	waiter := goLock(t.Context(), lock.NewMutex(s, "job"))
	awaitQueue(t, ns, "job", 2)
	mustUnlock(t, holder)
	if got := receive(t, waiter); got.h != nil || !errors.Is(got.err, session.ErrExpired) {
		t.Errorf("Lock = %v, %v", got.h, got.err)
	}
	if _, err := lock.NewMutex(s, "job").TryLock(t.Context()); !errors.Is(err, session.ErrExpired) {
		t.Errorf("TryLock after: %v", err)
	}
}

// The same for a free lock: the reply to the one request is late.
func TestFreeLockThatComesAfterTheDeadlineIsNotHandedOut(t *testing.T) {
	ns := namespace(t)
	for _, try := range []bool{false, true} {
		var now atomic.Int64
		ctx := clock.With(t.Context(), func() time.Duration { return time.Duration(now.Load()) })
		faults, c := faulty(t)
		m := lock.NewMutex(openWith(t, ctx, c, session.Options{Namespace: ns}), fmt.Sprint(try))
		faults.Do("Txn", 1, func(ctx context.Context, call *etcdtest.Call) error {
			defer now.Store(int64(2 * time.Minute))
			return call.Send(ctx)
		})
		acquire := m.Lock
		if try {
			acquire = m.TryLock
		}
		if h, err := acquire(t.Context()); h != nil || !errors.Is(err, session.ErrExpired) {
			t.Errorf("try %t: %v, %v", try, h, err)
		}
	}
}

// The sweep of release times around the end of a lease that is no longer renewed.
func TestReleaseAroundTheWaitersExpiryNeverHandsOutADeadLock(t *testing.T) {
	ns := namespace(t)
	const ttl = 2 * time.Second
	type run struct {
		after  time.Duration
		holder *lock.Held
		s      *session.Session
		waiter <-chan outcome
	}
	var runs []run
	for after := ttl - 700*time.Millisecond; after <= ttl+400*time.Millisecond; after += 50 * time.Millisecond {
		name := after.String()
		faults, c := faulty(t)
		silence := silenceRenewals(faults)
		r := run{after: after, holder: mustLock(t, lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), name))}
		granted := time.Now()
		r.s = open(t, c, session.Options{Namespace: ns, TTL: ttl})
		silence.Store(true) // a grant on a slow machine needs a renewal
		r.waiter = goLock(t.Context(), lock.NewMutex(r.s, name))
		time.AfterFunc(time.Until(granted.Add(after)), func() { _ = r.holder.Unlock() })
		runs = append(runs, r)
	}
	var got, refused int
	for _, r := range runs {
		o := receive(t, r.waiter)
		switch {
		case o.err != nil:
			refused++
			if !errors.Is(o.err, session.ErrExpired) {
				t.Errorf("after %v: %v", r.after, o.err)
			}
		case o.took > ttl:
			t.Errorf("after %v: handed out %v after the lease was asked for", r.after, o.took)
		default:
			got++
		}
	}
	t.Logf("%d were handed out in time, %d refused", got, refused)
	if refused == 0 {
		t.Error("none was refused")
	}
}

// https://github.com/etcd-io/etcd/issues/9715: a compaction between the waiter's read and its watch made Lock fail.
func TestCompactionBeforeTheWatchIsInvisible(t *testing.T) {
	ns := namespace(t)
	holder := mustLock(t, lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), "job"))
	faults, c := faulty(t)
	compact := func(context.Context) error {
		for range 10 {
			if _, err := direct.Put(context.Background(), "/unrelated", "x"); err != nil {
				return err
			}
		}
		_, err := cluster.Compact(context.Background())
		return err
	}
	var compacted atomic.Int32
	faults.Stream("Watch", 1, etcdtest.StreamHook{
		Open: compact,
		Send: func(ctx context.Context, _ any) error { compacted.Add(1); return compact(ctx) },
	})
	waiter := goLock(t.Context(), lock.NewMutex(open(t, c, session.Options{Namespace: ns}), "job"))
	eventually(t, "both watches are answered after compactions", func() bool {
		return compacted.Load() >= 2 && faults.Count("Watch").Received >= 2
	})
	time.Sleep(50 * time.Millisecond) // what the waiter was told is over
	mustUnlock(t, holder)
	got := receiveWithin(t, waiter, 5*time.Second)
	if got.err != nil {
		t.Fatal(got.err)
	}
	mustUnlock(t, got.h)
}

// https://github.com/kragniz/python-etcd3/issues/1107, https://github.com/etcd-io/etcd/issues/11052: the holder's release between
// the waiter's read and its watch was never seen.
func TestReleaseBeforeTheWatchIsOpenIsSeen(t *testing.T) {
	for _, when := range []string{"before the stream is opened", "before the watch is asked for", "before the watch is confirmed"} {
		t.Run(strings.ReplaceAll(when, " ", "_"), func(t *testing.T) {
			ns := namespace(t)
			holder := mustLock(t, lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), "job"))
			faults, c := faulty(t)
			var once atomic.Bool
			release := func(now bool) error {
				if now && once.CompareAndSwap(false, true) {
					return holder.Unlock()
				}
				return nil
			}
			faults.Stream("Watch", 1, etcdtest.StreamHook{
				Open: func(context.Context) error { return release(strings.Contains(when, "opened")) },
				Send: func(context.Context, any) error { return release(strings.Contains(when, "asked")) },
				Recv: func(_ context.Context, msg any) error {
					return release(strings.Contains(when, "confirmed") && msg.(*pb.WatchResponse).Created)
				},
			})
			waiter := goLock(t.Context(), lock.NewMutex(open(t, c, session.Options{Namespace: ns}), "job"))
			got := receiveWithin(t, waiter, 5*time.Second)
			if got.err != nil {
				t.Fatal(got.err)
			}
			if !once.Load() {
				t.Error("the holder was never asked to release")
			}
			mustUnlock(t, got.h)
		})
	}
}

// A lease that expires deletes keys as well.
func TestWaiterFollowsAnExpiry(t *testing.T) {
	ns := namespace(t)
	s := open(t, direct, session.Options{Namespace: ns})
	holder := mustLock(t, lock.NewMutex(s, "job"))
	waiter := goLock(t.Context(), lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), "job"))
	awaitQueue(t, ns, "job", 2)
	revoke(t, s)
	got := receiveWithin(t, waiter, 5*time.Second)
	if got.err != nil {
		t.Fatal(got.err)
	}
	if got.h.Token() <= holder.Token() {
		t.Errorf("token %d after %d", got.h.Token(), holder.Token())
	}
	mustUnlock(t, got.h)
}

// A key that no lease will ever delete would block the queue for ever, so whoever meets it says so.
func TestForeignKeyWithoutLeaseIsNamed(t *testing.T) {
	ns := namespace(t)
	key := ns + "job%/somebody"
	put(t, key, "x")
	m := lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), "job")
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	if _, err := m.Lock(ctx); err == nil || !strings.Contains(err.Error(), key) || ctx.Err() != nil {
		t.Errorf("Lock: %v", err)
	}
	if _, err := m.TryLock(ctx); !errors.Is(err, lock.ErrLocked) || !strings.Contains(err.Error(), "no lease") {
		t.Errorf("TryLock: %v", err)
	}
	awaitQueue(t, ns, "job", 1)
	remove(t, key)
	mustUnlock(t, mustLock(t, m))

	// One with a lease is waited for, whatever it is.
	lease, err := direct.Grant(t.Context(), 60)
	if err != nil {
		t.Fatal(err)
	}
	put(t, key, "x", clientv3.WithLease(lease.ID))
	waiter := goLock(ctx, m)
	awaitQueue(t, ns, "job", 2)
	if _, err := direct.Revoke(ctx, lease.ID); err != nil {
		t.Fatal(err)
	}
	got := receive(t, waiter)
	if got.err != nil {
		t.Fatal(got.err)
	}
	mustUnlock(t, got.h)
}
