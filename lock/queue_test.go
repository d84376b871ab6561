package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

func TestSessionsAreServedInTheOrderOfTheirComing(t *testing.T) {
	ns := namespace(t)
	holder := mustLock(t, lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), "job"))
	const n = 8
	order := make(chan int, n)
	var wg sync.WaitGroup
	for i := range n {
		m := lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), "job")
		wg.Go(func() {
			h, err := m.Lock(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			order <- i
			if err := h.Unlock(); err != nil {
				t.Error(err)
			}
		})
		awaitQueue(t, ns, "job", i+2)
	}
	mustUnlock(t, holder)
	wg.Wait()
	for want := range n {
		if got := <-order; got != want {
			t.Errorf("place %d was served to number %d", want, got)
		}
	}
}

func TestGoroutinesOfOneSessionAreServedInTheOrderOfTheirCalls(t *testing.T) {
	ns := namespace(t)
	m := lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), "job")
	holder := mustLock(t, m)
	const n = 20
	order := make(chan int, n)
	var wg sync.WaitGroup
	for i := range n {
		entered := lock.LocalWaiters(m)
		wg.Go(func() {
			h, err := m.Lock(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			order <- i
			if err := h.Unlock(); err != nil {
				t.Error(err)
			}
		})
		// Nothing outside of the package shows the order within a session.
		eventually(t, fmt.Sprintf("goroutine %d waits", i), func() bool { return lock.LocalWaiters(m) == entered+1 })
	}
	mustUnlock(t, holder)
	wg.Wait()
	for want := range n {
		if got := <-order; got != want {
			t.Errorf("place %d was served to number %d", want, got)
		}
	}
}

// https://github.com/etcd-io/etcd/issues/9715 and others show that each waiter of a lock is a key, a watch and a request at the
// server. Goroutines of one process need not be.
func TestThousandGoroutinesCostEtcdOneKeyAndTwoWatches(t *testing.T) {
	ns := namespace(t)
	holder := mustLock(t, lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), "job"))
	faults, c := faulty(t)
	m := lock.NewMutex(open(t, c, session.Options{Namespace: ns}), "job")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const n = 1000
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if h, err := m.Lock(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("Lock = %v, %v while another session holds", h, err)
			}
		})
	}
	eventually(t, "all wait", func() bool { return lock.LocalWaiters(m) == n })
	eventually(t, "both watches are open", func() bool { return faults.Count("Watch").Sent >= 2 })
	if got := len(queue(t, ns, "job")); got != 2 {
		t.Errorf("%d keys in the queue, want the holder's and one more", got)
	}
	w, txns := faults.Count("Watch"), faults.Count("Txn").Calls
	if w.Calls != 1 || w.Sent != 2 || txns != 1 {
		t.Errorf("%d streams, %d watches and %d transactions for %d waiters", w.Calls, w.Sent, txns, n)
	}
	cancel()
	wg.Wait()
	mustUnlock(t, holder)
	expectFree(t, ns, "job")
}

// A deleted key stays in etcd's index until compaction, and every read of the queue walks over it: so names are used again.
// And a key that is written twice would lift its holder's token above those of the waiters behind it.
func TestKeyNamesAreUsedAgainAndEachKeyIsWrittenOnce(t *testing.T) {
	ns := namespace(t)
	cycles := rounds(2000)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	events := direct.Watch(ctx, ns+"job%/", clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	<-events
	type seen struct {
		names map[string]bool
		puts  int
		bad   []string
	}
	counted := make(chan seen, 1)
	go func() {
		s := seen{names: map[string]bool{}}
		for deletes := 0; deletes < cycles; {
			resp, ok := <-events
			if !ok {
				break
			}
			for _, ev := range resp.Events {
				s.names[string(ev.Kv.Key)] = true
				if ev.Type == mvccpb.Event_DELETE {
					deletes++
				} else if s.puts++; ev.Kv.Version != 1 || ev.Kv.Lease == 0 {
					s.bad = append(s.bad, ev.Kv.String())
				}
			}
		}
		counted <- s
	}()
	m := lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), "job")
	for range cycles {
		mustUnlock(t, mustLock(t, m))
	}
	s := receive(t, counted)
	if len(s.names) != 1 || s.puts != cycles || len(s.bad) > 0 {
		t.Errorf("%d cycles used %d names in %d puts; written twice or without a lease: %v", cycles, len(s.names), s.puts, s.bad)
	}
}

func TestContendedKeysAreWrittenOnceToo(t *testing.T) {
	ns := namespace(t)
	rev := mustRevision(t)
	var wg sync.WaitGroup
	for range 3 {
		m := lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), "job")
		for range 2 {
			wg.Go(func() {
				for range 30 {
					h, err := m.Lock(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					if err := h.Unlock(); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	names, puts := map[string]bool{}, 0
	for resp := range direct.Watch(ctx, ns+"job%/", clientv3.WithPrefix(), clientv3.WithRev(rev+1)) {
		for _, ev := range resp.Events {
			names[string(ev.Kv.Key)] = true
			if ev.Type == mvccpb.Event_PUT {
				if puts++; ev.Kv.Version != 1 {
					t.Errorf("written twice: %v", ev.Kv)
				}
			}
		}
		if puts >= 3*2*30 {
			break
		}
	}
	// A session has two keys at a time: one that is being deleted, and the next one's.
	if len(names) > 6 {
		t.Errorf("%d key names for three sessions", len(names))
	}
}
