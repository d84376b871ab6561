package lock_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

// deafen makes the next watch stream a half-open one: after the confirmations of its first watches nothing comes any more,
// while everything else passes. It returns how many messages were lost.
func deafen(f *etcdtest.Faults, confirmations int32) *atomic.Int32 {
	var confirmed atomic.Int32
	lost := new(atomic.Int32)
	f.Stream("Watch", 1, etcdtest.StreamHook{Recv: func(_ context.Context, msg any) error {
		if msg.(*pb.WatchResponse).Created && confirmed.Add(1) <= confirmations {
			return nil
		}
		lost.Add(1)
		return etcdtest.ErrSkip
	}})
	return lost
}

func TestWaiterOnADeafWatchGetsTheLockAllTheSame(t *testing.T) {
	t.Parallel()
	const ttl = 6 * time.Second
	for name, confirmations := range map[string]int32{"deaf after the confirmation": 3, "deaf from the start": 1} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			ns := namespace(t)
			holder := lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), "job")
			faults, c := faulty(t)
			lost := deafen(faults, confirmations)
			s := open(t, c, session.Options{Namespace: ns, TTL: ttl})
			bystander := mustLock(t, lock.NewMutex(s, "other")) // keeps the stream open
			eventually(t, "the other key is watched", func() bool { return faults.Count("Watch").Received >= 1 })
			m := lock.NewMutex(s, "job")

			h := mustLock(t, holder)
			waiter := goLock(t.Context(), m)
			awaitQueue(t, ns, "job", 2)
			eventually(t, "both watches are asked for", func() bool { return faults.Count("Watch").Sent >= 3 })
			time.Sleep(100 * time.Millisecond)
			mustUnlock(t, h)
			got := receiveWithin(t, waiter, ttl/3+time.Second)
			if got.err != nil {
				t.Fatal(got.err)
			}
			mustUnlock(t, got.h)
			if lost.Load() == 0 {
				t.Error("the watch was not deaf")
			}
			// From then on the session uses another stream.
			h = mustLock(t, holder)
			waiter = goLock(t.Context(), m)
			awaitQueue(t, ns, "job", 2)
			time.Sleep(100 * time.Millisecond)
			mustUnlock(t, h)
			got = receiveWithin(t, waiter, ttl/6)
			if got.err != nil {
				t.Fatal(got.err)
			}
			mustUnlock(t, got.h)
			mustUnlock(t, bystander)
			if n := faults.Count("Watch").Calls; n < 2 {
				t.Errorf("%d watch streams were opened", n)
			}
		})
	}
}

func TestHolderOnADeafWatchNoticesItsLossAllTheSame(t *testing.T) {
	t.Parallel()
	const ttl = 6 * time.Second
	ns := namespace(t)
	faults, c := faulty(t)
	lost := deafen(faults, 2)
	s := open(t, c, session.Options{Namespace: ns, TTL: ttl})
	bystander := mustLock(t, lock.NewMutex(s, "other")) // keeps the stream open
	eventually(t, "the other key is watched", func() bool { return faults.Count("Watch").Received >= 1 })
	m := lock.NewMutex(s, "job")
	h := mustLock(t, m)
	eventually(t, "the key is watched", func() bool { return faults.Count("Watch").Received >= 2 })
	time.Sleep(100 * time.Millisecond)
	remove(t, h.Key())
	awaitLoss(t, h, ttl/3+time.Second)
	_ = h.Unlock()
	if lost.Load() == 0 {
		t.Error("the watch was not deaf")
	}
	// The next hold is watched on another stream.
	sent := faults.Count("Watch").Sent
	h = mustLock(t, m)
	eventually(t, "the key is watched", func() bool { return faults.Count("Watch").Sent > sent })
	time.Sleep(100 * time.Millisecond)
	remove(t, h.Key())
	awaitLoss(t, h, ttl/6)
	_ = h.Unlock()
	mustUnlock(t, bystander)
}
