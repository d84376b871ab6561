package etcdguard_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
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

// The caller's slice may have room behind its end, which is not ours.
func TestOperationsOfTheCallerAreLeftAlone(t *testing.T) {
	p := prefix(t)
	ops := []clientv3.Op{clientv3.OpPut(p+"a", "1"), clientv3.OpPut(p+"b", "2")}
	mustDo(t, newGuard(t, direct, p), "r", 5, ops[:1]...)
	if string(ops[1].KeyBytes()) != p+"b" {
		t.Errorf("the second operation has become one on %q", ops[1].KeyBytes())
	}
}

func TestTransactionOverTheLimitIsRefusedWithTheNumber(t *testing.T) {
	p := prefix(t)
	puts := func(from, n int) (ops []clientv3.Op) {
		for i := range n {
			ops = append(ops, clientv3.OpPut(fmt.Sprint(p, "data/", from+i), "x"))
		}
		return ops
	}
	nested := func(cmps, then, otherwise int) clientv3.Op {
		return clientv3.OpTxn(slices.Repeat([]clientv3.Cmp{clientv3.Compare(clientv3.Version(p), "=", 0)}, cmps), puts(1000, then), puts(2000, otherwise))
	}
	for name, c := range map[string]struct {
		ops    []clientv3.Op
		number int // as etcd counts, with the mark's
	}{
		"plain":            {puts(0, 200), 201},
		"one too many":     {puts(0, 128), 129},
		"the limit":        {puts(0, 127), 128},
		"then":             {append(puts(0, 100), nested(1, 27, 0)), 102 + 27},
		"then, the limit":  {append(puts(0, 100), nested(1, 26, 0)), 102 + 26},
		"else":             {append(puts(0, 100), nested(1, 2, 27)), 102 + 27},
		"else, the limit":  {append(puts(0, 100), nested(1, 2, 26)), 102 + 26},
		"comparisons":      {append(puts(0, 100), nested(27, 1, 1)), 102 + 27},
		"two of them":      {append(puts(0, 100), nested(1, 20, 0), nested(0, 0, 7)), 103 + 20},
		"deep":             {append(puts(0, 100), clientv3.OpTxn(nil, append(puts(3000, 9), nested(1, 17, 17)), nil)), 102 + 10 + 17},
		"deep, the limit":  {append(puts(0, 100), clientv3.OpTxn(nil, append(puts(3000, 9), nested(1, 16, 16)), nil)), 102 + 10 + 16},
		"deep and nothing": {puts(0, 1), 2},
	} {
		t.Run(name, func(t *testing.T) {
			faults, client := faulty(t)
			g := newGuard(t, client, p)
			err := g.Do(t.Context(), "r", 5, c.ops...)
			if over := c.number > 128; over != errors.Is(err, rpctypes.ErrTooManyOps) || !over && err != nil {
				t.Errorf("Do with %d operations = %v", c.number, err)
			}
			if err != nil && (!strings.Contains(err.Error(), fmt.Sprintf("would have %d,", c.number)) || !strings.Contains(err.Error(), "at most 128") || faults.Count("").Calls != 0) {
				t.Errorf("%v, after %d calls; want the numbers %d and 128, and no call", err, faults.Count("").Calls, c.number)
			}
			// What is counted here is what etcd counts.
			lenient := newGuardWith(t, client, etcdguard.Options{Prefix: p + "marks/", MaxOps: 1000})
			err = lenient.Do(t.Context(), "r", 5, c.ops...)
			if over := c.number > 128; over && (!errors.Is(err, rpctypes.ErrTooManyOps) || !strings.Contains(err.Error(), "Options.MaxOps")) || !over && err != nil {
				t.Errorf("etcd says %v to %d operations", err, c.number)
			}
		})
	}
}

func TestMarksAreOutOfReachOfOperations(t *testing.T) {
	p := prefix(t)
	faults, client := faulty(t)
	g := newGuard(t, client, p)
	mustDo(t, g, "r", 5)
	before := faults.Count("").Calls
	marks := p + "marks/"
	for name, op := range map[string]clientv3.Op{
		"put of the own mark":       clientv3.OpPut(marks+"r", "x"),
		"put of another mark":       clientv3.OpPut(marks+"other", "x"),
		"delete":                    clientv3.OpDelete(marks + "r"),
		"delete of all marks":       clientv3.OpDelete(marks, clientv3.WithPrefix()),
		"delete of more":            clientv3.OpDelete(p, clientv3.WithPrefix()),
		"delete of everything":      clientv3.OpDelete("", clientv3.WithPrefix()),
		"delete from a key on":      clientv3.OpDelete(p, clientv3.WithFromKey()),
		"delete of a range":         clientv3.OpDelete(p+"a", clientv3.WithRange(p+"z")),
		"delete from among them on": clientv3.OpDelete(marks+"s", clientv3.WithFromKey()),
		"delete in a branch":        clientv3.OpTxn(nil, nil, []clientv3.Op{clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpDelete(marks + "r")}, nil)}),
		"no operation":              {},
		"no operation in a branch":  clientv3.OpTxn(nil, []clientv3.Op{{}}, nil),
		"no key":                    clientv3.OpPut("", "x"),
	} {
		if err := g.Do(t.Context(), "r", 6, clientv3.OpPut(p+"data", "x"), op); err == nil || !strings.HasPrefix(err.Error(), "etcdguard: operation 1: ") {
			t.Errorf("%s: %v; want a refusal", name, err)
		}
	}
	if calls := faults.Count("").Calls; calls != before {
		t.Errorf("refusing took %d calls", calls-before)
	}
	for name, op := range map[string]clientv3.Op{
		"delete before them":    clientv3.OpDelete(p, clientv3.WithRange(marks)),
		"delete behind them":    clientv3.OpDelete(p+"marks0", clientv3.WithRange(p+"z")),
		"delete with no branch": clientv3.OpTxn(nil, nil, nil),
		"get of the marks":      clientv3.OpGet(marks, clientv3.WithPrefix()),
		"put of the folder":     clientv3.OpPut(p+"marks", "x"),
	} {
		if err := g.Do(t.Context(), "r", 6, op); err != nil {
			t.Errorf("%s: %v", name, err)
		}
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
	waiting := make(chan error)
	go func() { waiting <- g.Do(ctx, "r", 5, clientv3.OpPut(p+"data", "second")) }()
	mustDo(t, g, "another resource", 5)
	cancel(why)
	if err := <-waiting; !errors.Is(err, why) || errors.Is(err, guard.ErrUnknown) {
		t.Errorf("Do that waited = %v; want the cause, and not ErrUnknown", err)
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
