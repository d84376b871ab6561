package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

// https://github.com/etcd-io/etcd/pull/11104: a refused try-lock whose clean-up was cancelled left a key that later owned the
// lock without knowing it.
func TestRefusedTryLockWhoseContextEndsLeavesNothing(t *testing.T) {
	for _, when := range []string{"before the request", "after the request", "after the reply"} {
		t.Run(when, func(t *testing.T) {
			ns := namespace(t)
			holder := mustLock(t, lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), "job"))
			faults, c := faulty(t)
			m := lock.NewMutex(open(t, c, session.Options{Namespace: ns}), "job")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			faults.Do("Txn", 1, func(sending context.Context, call *etcdtest.Call) error {
				if when == "before the request" {
					cancel()
				}
				err := call.Send(sending)
				cancel()
				if when == "after the request" {
					return etcdtest.ErrReplyLost
				}
				return err
			})
			h, err := m.TryLock(ctx)
			if h != nil || err == nil || !errors.Is(err, context.Canceled) && !errors.Is(err, lock.ErrLocked) {
				t.Errorf("TryLock = %v, %v", h, err)
			}
			if kvs := queue(t, ns, "job"); len(kvs) != 1 || string(kvs[0].Key) != holder.Key() {
				t.Errorf("the queue holds %v", kvs)
			}
			mustUnlock(t, holder)
			expectFree(t, ns, "job")
		})
	}
}

// The same when the lock is free: the put has landed, and its caller was told that its context had ended.
func TestTryLockThatWasCancelledAfterItsPutLeavesNothing(t *testing.T) {
	ns := namespace(t)
	for name, acquire := range map[string]func(*lock.Mutex, context.Context) (*lock.Held, error){
		"try": (*lock.Mutex).TryLock, "lock": (*lock.Mutex).Lock,
	} {
		faults, c := faulty(t)
		m := lock.NewMutex(open(t, c, session.Options{Namespace: ns}), name)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		faults.Do("Txn", 1, func(sending context.Context, call *etcdtest.Call) error {
			err := call.Send(sending)
			cancel()
			if err == nil {
				<-sending.Done()
				err = sending.Err()
			}
			return err
		})
		if h, err := acquire(m, ctx); h != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("%s = %v, %v", name, h, err)
		}
		expectFree(t, ns, name)
	}
}

// https://github.com/etcd-io/etcd/issues/10111, https://github.com/etcd-io/etcd/pull/12547: after a cancelled wait nobody could say
// whether the lock was held.
func TestWaitCancelledAroundTheReleaseHasOneOfTwoOutcomes(t *testing.T) {
	ns := namespace(t)
	const lanes = 5
	var held, cancelled atomic.Int32
	var wg sync.WaitGroup
	for lane := range lanes {
		name := fmt.Sprint("lane", lane)
		a := lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), name)
		b := lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), name)
		next := lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), name)
		wg.Go(func() {
			for round := range rounds(500) / lanes {
				if h := cancelledRound(t, a, b, next, round); h == nil {
					cancelled.Add(1)
				} else {
					held.Add(1)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d were held, %d cancelled", held.Load(), cancelled.Load())
	if held.Load() == 0 || cancelled.Load() == 0 {
		t.Error("the cancels did not hit the release from both sides")
	}
}

// cancelledRound has b wait behind a, and cancels that around a's release. It returns the hold that b got.
func cancelledRound(t *testing.T, a, b, next *lock.Mutex, round int) *lock.Held {
	holder, err := a.Lock(t.Context())
	if err != nil {
		t.Error(err)
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waiter := goLock(ctx, b)
	spread := 20 * time.Millisecond
	if round%5 == 0 {
		spread = 200 * time.Millisecond
	}
	stop := time.AfterFunc(rand.N(spread), cancel)
	defer stop.Stop()
	time.Sleep(rand.N(spread / 2))
	if err := holder.Unlock(); err != nil {
		t.Error(err)
	}
	var got outcome
	select {
	case got = <-waiter:
	case <-time.After(patient):
		t.Error("Lock returned neither way")
		return nil
	}
	if got.err == nil {
		kv := find(t, got.h.Key())
		if kv == nil || kv.ModRevision != int64(got.h.Token()) || got.h.Err() != nil || got.h.Context().Err() != nil {
			t.Errorf("held, but its key is %v and its error %v", kv, got.h.Err())
		}
		if err := got.h.Unlock(); err != nil {
			t.Error(err)
		}
	} else if got.h != nil || !errors.Is(got.err, context.Canceled) {
		t.Errorf("Lock = %v, %v", got.h, got.err)
	}
	// Either way the next one gets through.
	within, done := context.WithTimeout(t.Context(), 5*time.Second)
	defer done()
	h, err := next.Lock(within)
	if err != nil {
		t.Errorf("the next one: %v", err)
		return got.h
	}
	if err := h.Unlock(); err != nil {
		t.Error(err)
	}
	return got.h
}

// https://github.com/redis/rueidis/issues/653: cancels that raced with the next acquisition on the same locker lost the wake-up
// of those who waited.
func TestCancelsInATightLoopLoseNoWakeUp(t *testing.T) {
	ns := namespace(t)
	s := open(t, direct, session.Options{Namespace: ns})
	m := lock.NewMutex(s, "job")
	const workers = 8
	var got, ended atomic.Int32
	var slowest atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range rounds(5000) / workers {
				limit := rand.N(16 * time.Millisecond)
				if i%50 == 0 {
					limit = 5 * time.Second // on a busy machine nobody would ever get it else
				}
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				began := time.Now()
				h, err := m.Lock(ctx)
				late := time.Since(began) - limit
				cancel()
				switch {
				case err == nil:
					got.Add(1)
					if err := h.Unlock(); err != nil {
						t.Error(err)
					}
				case errors.Is(err, context.DeadlineExceeded):
					ended.Add(1)
					slowest.Store(max(slowest.Load(), int64(late)))
				default:
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d got the lock, %d gave up, at most %v after their time", got.Load(), ended.Load(), time.Duration(slowest.Load()))
	if got.Load() == 0 || ended.Load() == 0 {
		t.Error("the race was not run")
	}
	if d := time.Duration(slowest.Load()); d > time.Second {
		t.Errorf("one gave up %v after its context had ended", d)
	}
	// What the last ones left behind is cleaned up beside all this; then a free lock is had at once. A lost wake-up
	// would cost a third of the session's minute.
	eventually(t, "the queue is empty", func() bool { return len(queue(t, ns, "job")) == 0 })
	best := time.Hour
	for range 5 {
		began := time.Now()
		mustUnlock(t, mustLock(t, m))
		best = min(best, time.Since(began))
	}
	if best > 100*time.Millisecond {
		t.Errorf("the free lock took %v", best)
	}
	expectFree(t, ns, "job")
	if n := lock.LocalWaiters(m); n != 0 {
		t.Errorf("%d are left in the local queue", n)
	}
}

// A Lock that has got its context's end back does not wait for etcd.
func TestCancelledLockReturnsAtOnceThoughEtcdIsSilent(t *testing.T) {
	ns := namespace(t)
	faults, c := faulty(t)
	m := lock.NewMutex(open(t, c, session.Options{Namespace: ns}), "job")
	pause := faults.Pause("Txn")
	ctx, cancel := context.WithCancel(t.Context())
	waiter := goLock(ctx, m)
	receive(t, pause.Reached())
	silent := make(chan struct{})
	faults.Do("", -1, func(ctx context.Context, call *etcdtest.Call) error { // the clean-up hangs
		select {
		case <-silent:
			return call.Send(ctx)
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	cancel()
	if got := receiveWithin(t, waiter, time.Second); got.h != nil || !errors.Is(got.err, context.Canceled) {
		t.Errorf("Lock = %v, %v", got.h, got.err)
	}
	close(silent)
	expectFree(t, ns, "job")
}

// Each put that is cancelled moves the session's epoch, which makes puts under way fail. That must not starve the others.
func TestStormOfCancelsDoesNotStarveOtherLocksOfTheSession(t *testing.T) {
	ns := namespace(t)
	s := open(t, direct, session.Options{Namespace: ns})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 4 {
		m := lock.NewMutex(s, fmt.Sprint("storm", i))
		wg.Go(func() {
			for ctx.Err() == nil {
				ctx, cancel := context.WithTimeout(ctx, rand.N(2*time.Millisecond))
				if h, err := m.Lock(ctx); err == nil {
					_ = h.Unlock()
				}
				cancel()
			}
		})
	}
	healthy := lock.NewMutex(s, "healthy")
	var slowest time.Duration
	for range 50 {
		began := time.Now()
		mustUnlock(t, mustLock(t, healthy))
		slowest = max(slowest, time.Since(began))
	}
	cancel()
	wg.Wait()
	t.Logf("the slowest of 50 took %v", slowest)
	if slowest > 2*time.Second {
		t.Errorf("a lock took %v beside the storm", slowest)
	}
}
