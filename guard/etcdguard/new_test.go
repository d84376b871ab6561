package etcdguard_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/etcdguard"
)

func TestNewRefusesWhatMakesNoSense(t *testing.T) {
	var none *clientv3.Client
	for _, c := range []struct {
		names  string // what the error must name
		client clientv3.KV
		o      etcdguard.Options
	}{
		{"client", nil, etcdguard.Options{}},
		{"client", none, etcdguard.Options{}},
		{"client", &clientv3.Client{}, etcdguard.Options{}},
		{"Options.Prefix", direct, etcdguard.Options{Prefix: "marks"}},
		{"Options.Prefix", direct, etcdguard.Options{Prefix: strings.Repeat("x", 512) + "/"}},
		{"Options.MaxOps", direct, etcdguard.Options{MaxOps: -1}},
		{"Options.MaxOps", direct, etcdguard.Options{MaxOps: 1}},
		{"Options.MaxRetries", direct, etcdguard.Options{MaxRetries: -1}},
	} {
		g, err := etcdguard.New(c.client, &c.o)
		if g != nil || err == nil || !strings.HasPrefix(err.Error(), "etcdguard: ") || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%+v: %v, %v; want an error that names %s", c.o, g, err, c.names)
		}
	}
	if g, err := etcdguard.New(direct, nil); g == nil || err != nil {
		t.Errorf("the defaults: %v", err)
	}
}

func TestMaxOpsMovesTheLimit(t *testing.T) {
	p := prefix(t)
	g := newGuardWith(t, direct, etcdguard.Options{Prefix: p + "marks/", MaxOps: 2})
	put := func(key string) clientv3.Op { return clientv3.OpPut(p+key, "x") }
	if err := g.Seal(t.Context(), "r", 5); err != nil {
		t.Error(err)
	}
	mustDo(t, g, "r", 5, put("a"))
	if err := g.Do(t.Context(), "r", 5, put("a"), put("b")); err == nil || !strings.Contains(err.Error(), "would have 3,") || !strings.Contains(err.Error(), "at most 2 ") {
		t.Errorf("two operations and the mark: %v", err)
	}
}

// What can be seen to be wrong costs no call.
func TestBadArgumentsAreRefusedWithoutIO(t *testing.T) {
	p := prefix(t)
	faults, client := faulty(t)
	g := newGuard(t, client, p)
	ended, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the lock is lost")
	cancel(why)
	calls := func(ctx context.Context, r string, tok guard.Token) map[string]error {
		_, errTxn := g.Txn(ctx, r, tok)
		return map[string]error{"Do": g.Do(ctx, r, tok), "Seal": g.Seal(ctx, r, tok), "Txn": errTxn}
	}
	for _, r := range []string{"", strings.Repeat("x", 513), "a\x00b", "\xff"} {
		all := calls(t.Context(), r, 5)
		_, all["Highest"] = g.Highest(t.Context(), r)
		for op, err := range all {
			if err == nil || !strings.Contains(err.Error(), "name") {
				t.Errorf("%s on %.9q: %v; want an error about the name", op, r, err)
			}
		}
	}
	for _, tok := range []guard.Token{0, -1} {
		for op, err := range calls(t.Context(), "r", tok) {
			if !errors.Is(err, guard.ErrNoToken) {
				t.Errorf("%s with token %d: %v", op, int64(tok), err)
			}
		}
	}
	all := calls(ended, "r", 5)
	_, all["Highest"] = g.Highest(ended, "r")
	for op, err := range all {
		if !errors.Is(err, context.Canceled) || !errors.Is(err, why) || errors.Is(err, guard.ErrUnknown) {
			t.Errorf("%s when the context had ended: %v; want its error and cause", op, err)
		}
	}
	if n := faults.Count("").Calls; n != 0 {
		t.Errorf("%d calls were made", n)
	}
}

// What was seen long ago is read again: a holder that comes back late is told that it is stale, however many others have
// written meanwhile.
func TestHolderThatComesBackLateIsStaleAndNotUnknown(t *testing.T) {
	p := prefix(t)
	g := newGuard(t, direct, p)
	mustDo(t, g, "r", 5)
	for i := range 20 {
		mustDo(t, newGuard(t, direct, p), "r", guard.Token(6+i))
	}
	g.Age(10 * time.Second)
	var stale *guard.StaleError
	if err := g.Do(t.Context(), "r", 5); !errors.As(err, &stale) || stale.Highest != 25 {
		t.Errorf("Do = %v; want stale by 25", err)
	}
}

func TestZeroGuardReturnsErrors(t *testing.T) {
	for _, g := range []*etcdguard.Guard{{}, nil} {
		_, errTxn := g.Txn(t.Context(), "x", 5)
		_, errHighest := g.Highest(t.Context(), "x")
		for op, err := range map[string]error{
			"Do": g.Do(t.Context(), "x", 5, clientv3.OpPut("a", "b")), "Seal": g.Seal(t.Context(), "x", 5), "Txn": errTxn, "Highest": errHighest,
		} {
			if err == nil || err.Error() != "etcdguard: this Guard was not made by New" {
				t.Errorf("%s: %v; want an error about New", op, err)
			}
		}
	}
}
