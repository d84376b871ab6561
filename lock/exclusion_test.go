package lock_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

// exclusion is data that only the lock protects: the race detector and the sum show every overlap.
type exclusion struct {
	counter int
	tokens  []guard.Token
}

// work locks n times and changes the data each time.
func (x *exclusion) work(t *testing.T, m *lock.Mutex, n int) {
	for range n {
		h, err := m.Lock(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		x.counter++
		x.tokens = append(x.tokens, h.Token())
		if err := h.Unlock(); err != nil {
			t.Error(err)
			return
		}
	}
}

func (x *exclusion) check(t *testing.T, want int) {
	t.Helper()
	if x.counter != want || len(x.tokens) != want {
		t.Errorf("%d rounds were counted as %d, with %d tokens", want, x.counter, len(x.tokens))
	}
	for i := 1; i < len(x.tokens); i++ {
		if x.tokens[i] <= x.tokens[i-1] {
			t.Errorf("token %d came after %d", x.tokens[i], x.tokens[i-1])
		}
	}
}

// https://github.com/etcd-io/etcd/pull/11391, https://github.com/etcd-io/etcd/pull/11364: keys that were named after the lease let
// two goroutines of one session hold the lock together.
func TestTwoGoroutinesOfOneSessionExcludeEachOther(t *testing.T) {
	ns := namespace(t)
	s := open(t, direct, session.Options{Namespace: ns})
	var x exclusion
	var wg sync.WaitGroup
	n := rounds(5000)
	for range 2 {
		wg.Go(func() { x.work(t, lock.NewMutex(s, "job"), n) }) // a Mutex of its own each
	}
	wg.Wait()
	x.check(t, 2*n)

	// The first one's Unlock does not let a third party in while the second holds.
	a, b := lock.NewMutex(s, "job"), lock.NewMutex(s, "job")
	first := mustLock(t, a)
	waiter := goLock(t.Context(), b)
	eventually(t, "the second waits", func() bool { return lock.LocalWaiters(b) == 2 || len(queue(t, ns, "job")) == 2 })
	mustUnlock(t, first)
	second := receive(t, waiter)
	if second.err != nil {
		t.Fatal(second.err)
	}
	third := lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), "job")
	if _, err := third.TryLock(t.Context()); !errors.Is(err, lock.ErrLocked) {
		t.Errorf("a third party got in: %v", err)
	}
	_ = first.Unlock() // again
	if _, err := third.TryLock(t.Context()); !errors.Is(err, lock.ErrLocked) {
		t.Errorf("a third party got in after a second Unlock: %v", err)
	}
	if second.h.Token() == first.Token() {
		t.Errorf("both had token %d", first.Token())
	}
	mustUnlock(t, second.h)
}

func TestManySessionsAndGoroutinesExcludeEachOther(t *testing.T) {
	ns := namespace(t)
	var x exclusion
	var wg sync.WaitGroup
	const sessions, goroutines = 4, 3
	n := rounds(400)
	for range sessions {
		m := lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), "job")
		for range goroutines {
			wg.Go(func() { x.work(t, m, n) })
		}
	}
	wg.Wait()
	x.check(t, sessions*goroutines*n)
}

// https://github.com/go-redsync/redsync/issues/126: contenders with a fixed owner value all "had" the lock.
func TestSameOwnerLabelDoesNotMakeContendersEqual(t *testing.T) {
	ns := namespace(t)
	var mutexes []*lock.Mutex
	for range 5 {
		mutexes = append(mutexes, lock.NewMutex(open(t, direct, session.Options{Namespace: ns, Owner: "replica"}), "job"))
	}
	var got atomic.Pointer[lock.Held]
	var holders atomic.Int32
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			h, err := mutexes[i%len(mutexes)].TryLock(t.Context())
			if err == nil {
				holders.Add(1)
				got.Store(h)
			} else if !errors.Is(err, lock.ErrLocked) {
				t.Errorf("TryLock: %v", err)
			}
		})
	}
	wg.Wait()
	if n := holders.Load(); n != 1 {
		t.Fatalf("%d of 100 got the lock", n)
	}
	if err := got.Load().Err(); err != nil {
		t.Error(err)
	}
	mustUnlock(t, got.Load())
}

// handOvers counts how often two contenders pass a lock to each other in a while.
func handOvers(t *testing.T, cycle [2]func(ctx context.Context) error) float64 {
	t.Helper()
	const while = time.Second
	var n atomic.Int32
	var wg sync.WaitGroup
	began := time.Now()
	for _, c := range cycle {
		wg.Go(func() {
			for time.Since(began) < while {
				if err := c(t.Context()); err != nil {
					t.Error(err)
					return
				}
				n.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(n.Load()) / time.Since(began).Seconds()
}

// etcd's own mutex watches a revision of the past, which etcd delivers from a loop that runs every 100 ms.
func TestHandOverIsFarQuickerThanThatOfEtcdsMutex(t *testing.T) {
	ns := namespace(t)
	var ours, etcds [2]func(ctx context.Context) error
	for i := range 2 {
		m := lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), "job")
		ours[i] = func(ctx context.Context) error {
			h, err := m.Lock(ctx)
			if err != nil {
				return err
			}
			return h.Unlock()
		}
		s := open(t, direct, session.Options{Namespace: ns})
		cs, err := concurrency.NewSession(direct, concurrency.WithLease(clientv3.LeaseID(s.Lease())))
		if err != nil {
			t.Fatal(err)
		}
		defer cs.Orphan()
		theirs := concurrency.NewMutex(cs, ns+"theirs")
		etcds[i] = func(ctx context.Context) error {
			if err := theirs.Lock(ctx); err != nil {
				return err
			}
			return theirs.Unlock(ctx)
		}
	}
	// With the race detector the processor is what limits both, not the waiting.
	want := 8.0
	if raceDetector {
		want = 1.2
	}
	for range 3 { // on a machine that may be busy
		a, b := handOvers(t, ours), handOvers(t, etcds)
		t.Logf("hand-overs between two contenders: %.0f/s, etcd's mutex %.0f/s", a, b)
		if a >= want*b {
			return
		}
	}
	t.Errorf("never %.1f times as many hand-overs as etcd's mutex", want)
}
