package etcdguard_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/etcdguard"
	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

// Lock and data are in different clusters, whose revisions have nothing to do with each other.
func TestTokensOfOneClusterGuardDataInAnother(t *testing.T) {
	p := prefix(t)
	locks := etcdtest.Start(t, nil).Client(t)
	g := newGuard(t, direct, p)
	hold := func() *lock.Held {
		s, err := session.New(t.Context(), locks, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		h, err := lock.NewMutex(s, "job").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	first := hold()
	mustDo(t, g, first.Resource(), first.Token(), clientv3.OpPut(p+"data", "first"))
	if err := first.Unlock(); err != nil {
		t.Fatal(err)
	}
	second := hold()
	mustDo(t, g, second.Resource(), second.Token(), clientv3.OpPut(p+"data", "second"))
	var stale *guard.StaleError
	err := g.Do(t.Context(), first.Resource(), first.Token(), clientv3.OpPut(p+"data", "late"))
	if !errors.As(err, &stale) || stale.Highest != second.Token() {
		t.Errorf("the first holder, late: %v; want stale by %d", err, second.Token())
	}
	expect(t, p+"data", "second", 2)
	if err := second.Unlock(); err != nil {
		t.Error(err)
	}
}

func TestWriteTakesOneRoundTrip(t *testing.T) {
	p := prefix(t)
	faults, client := faulty(t)
	g := newGuard(t, client, p)
	mustDo(t, g, "r", 5)
	before := faults.Count("").Calls
	for tok := range guard.Token(10) {
		mustDo(t, g, "r", 5+tok/2, clientv3.OpPut(p+"data", "x"))
	}
	if calls := faults.Count("").Calls - before; calls != 10 {
		t.Errorf("10 writes took %d calls", calls)
	}
}

// Two processes of one holder, and several goroutines in each: every write is applied once, none is refused.
func TestWritesOfOneHolderAreAllApplied(t *testing.T) {
	p := prefix(t)
	const guards, writers, writes = 2, 4, 10
	var wg sync.WaitGroup
	for i := range guards {
		g := newGuardWith(t, direct, etcdguard.Options{Prefix: p + "marks/"})
		for j := range writers {
			wg.Go(func() {
				for k := range writes {
					if err := g.Do(t.Context(), "r", 5, clientv3.OpPut(fmt.Sprintf("%sdata/%d-%d-%d", p, i, j, k), "x")); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	resp, err := direct.Get(t.Context(), p+"data/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Kvs) != guards*writers*writes {
		t.Errorf("%d of %d writes are there", len(resp.Kvs), guards*writers*writes)
	}
	for _, kv := range resp.Kvs {
		if kv.Version != 1 {
			t.Errorf("%s was put %d times", kv.Key, kv.Version)
		}
	}
}

func TestWriterThatOthersAlwaysPrecedeGivesUpAndSaysSo(t *testing.T) {
	p := prefix(t)
	faults, client := faulty(t)
	g, other := newGuard(t, client, p), newGuard(t, direct, p)
	mustDo(t, g, "r", 5)
	faults.Do("Txn", -1, func(ctx context.Context, call *etcdtest.Call) error {
		mustDo(t, other, "r", 5)
		return call.Send(ctx)
	})
	err := g.Do(t.Context(), "r", 5, clientv3.OpPut(p+"data", "mine"))
	expectRefused(t, g, err, nil, "gave up after 2 retries")
	expect(t, p+"data", "", 0)
}

func TestTxnAnswersEachOperation(t *testing.T) {
	for name, kv := range map[string]clientv3.KV{"plain": direct, "namespaced": namespace.NewKV(direct, "/"+t.Name()+"/")} {
		t.Run(name, func(t *testing.T) {
			p := prefix(t)
			t.Cleanup(func() { _, _ = kv.Delete(context.Background(), p, clientv3.WithPrefix()) })
			g := newGuard(t, kv, p)
			mustDo(t, g, "r", 5, clientv3.OpPut(p+"a", "1"))
			resp, err := g.Txn(t.Context(), "r", 5,
				clientv3.OpGet(p+"a"),
				clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.Value(p+"a"), "=", "2")}, nil, []clientv3.Op{clientv3.OpGet(p + "a")}),
				clientv3.OpPut(p+"a", "2", clientv3.WithPrevKV()))
			if err != nil {
				t.Fatal(err)
			}
			if !resp.Succeeded || len(resp.Responses) != 3 {
				t.Fatalf("%v; want three answers", resp)
			}
			if kvs := resp.Responses[0].GetResponseRange().Kvs; len(kvs) != 1 || string(kvs[0].Key) != p+"a" || string(kvs[0].Value) != "1" {
				t.Errorf("OpGet found %v", kvs)
			}
			if nested := resp.Responses[1].GetResponseTxn(); nested.Succeeded || len(nested.Responses) != 1 {
				t.Errorf("OpTxn answered %v", nested)
			}
			if prev := resp.Responses[2].GetResponsePut().PrevKv; prev == nil || string(prev.Value) != "1" {
				t.Errorf("OpPut's previous value is %v", prev)
			}
		})
	}
}

func TestWaitForTheTurnEndsWithTheContext(t *testing.T) {
	p := prefix(t)
	faults, client := faulty(t)
	g := newGuard(t, client, p)
	mustDo(t, g, "r", 5)
	stopped := faults.Pause("Txn")
	done := make(chan error)
	go func() { done <- g.Do(t.Context(), "r", 5, clientv3.OpPut(p+"data", "first")) }()
	<-stopped.Reached()
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	waiting := make(chan error, 1)
	go func() { waiting <- g.Do(ctx, "r", 5, clientv3.OpPut(p+"data", "second")) }()
	mustDo(t, g, "another resource", 5)
	cancel(why)
	select {
	case err := <-waiting:
		if !errors.Is(err, why) || errors.Is(err, guard.ErrUnknown) {
			t.Errorf("Do that waited = %v; want the cause, and not ErrUnknown", err)
		}
	case <-time.After(patient):
		t.Error("Do waits on though its context has ended")
	}
	_ = stopped.Release()
	if err := <-done; err != nil {
		t.Error(err)
	}
	expect(t, p+"data", "first", 1)
}

func TestEachOutcomeIsReportedOnce(t *testing.T) {
	p := prefix(t)
	var seen []string
	g := newGuardWith(t, direct, etcdguard.Options{Prefix: p + "marks/", OnOutcome: func(_ context.Context, resource string, tok guard.Token, err error) {
		seen = append(seen, fmt.Sprintf("%s %d %t %t", resource, int64(tok), err == nil, errors.Is(err, guard.ErrStale)))
	}})
	_ = g.Do(t.Context(), "r", 5)
	_ = g.Seal(t.Context(), "r", 6)
	_, _ = g.Txn(t.Context(), "r", 5)
	_ = g.Do(t.Context(), "r", 0)
	_, _ = g.Highest(t.Context(), "r")
	if want := []string{"r 5 true false", "r 6 true false", "r 5 false true", "r 0 false false"}; !slices.Equal(seen, want) {
		t.Errorf("reported %q; want %q", seen, want)
	}
}

// What a Guard keeps of resources is bounded, and dropping it costs a read and nothing else.
func TestManyResourcesAreGuardedThoughFewAreKept(t *testing.T) {
	p := prefix(t)
	g := newGuard(t, direct, p)
	const many, workers = 1100, 20
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < many; i += workers {
				if err := g.Do(t.Context(), fmt.Sprint(i), 5); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := g.Places(); n > 1024 {
		t.Errorf("%d resources are kept", n)
	}
	for i := range many / 50 {
		if err := g.Do(t.Context(), fmt.Sprint(i*50), 4); !errors.Is(err, guard.ErrStale) {
			t.Errorf("resource %d: %v; want ErrStale", i*50, err)
		}
	}
}
