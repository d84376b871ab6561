package lock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

// https://github.com/etcd-io/etcd/issues/16287, https://github.com/sensu/sensu-go/issues/4500: one refusal for overload was taken for
// final, or repeated without a pause.
func TestOverloadIsWaitedOut(t *testing.T) {
	ns := namespace(t)
	faults, c := faulty(t)
	s := open(t, c, session.Options{Namespace: ns})
	m := lock.NewMutex(s, "job")
	overloaded := func(while time.Duration) (refused func() int) {
		until, n := time.Now().Add(while), 0
		faults.Do("Txn", -1, func(ctx context.Context, call *etcdtest.Call) error {
			if time.Now().Before(until) {
				n++
				return rpctypes.ErrGRPCRequestTooManyRequests
			}
			return call.Send(ctx)
		})
		return func() int { faults.Clear(); return n }
	}
	const while = 500 * time.Millisecond
	refused := overloaded(while)
	h := mustLock(t, m)
	if n := refused(); n < 2 || n > 60 {
		t.Errorf("Lock was refused %d times in %v", n, while)
	}
	refused = overloaded(while)
	mustUnlock(t, h)
	if n := refused(); n < 2 || n > 60 {
		t.Errorf("Unlock was refused %d times in %v", n, while)
	}
	// A refusal is certain: nothing needs to be swept.
	if find(t, epochKey(ns, s)) != nil {
		t.Error("the epoch was moved for puts that were refused")
	}
	// ctx still bounds the wait.
	overloaded(time.Hour)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := m.Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Lock: %v", err)
	}
	faults.Clear()
}

// What retrying cannot cure is told at once.
func TestFinalErrorsComeAtOnce(t *testing.T) {
	ns := namespace(t)
	faults, c := faulty(t)
	m := lock.NewMutex(open(t, c, session.Options{Namespace: ns}), "job")
	for _, want := range []error{rpctypes.ErrGRPCPermissionDenied, rpctypes.ErrGRPCNoSpace} {
		for how, acquire := range acquirers {
			faults.Fail("Txn", 1, want)
			before := faults.Count("Txn").Calls
			h, err := acquire(m, t.Context())
			if h != nil || !errors.Is(err, rpctypes.Error(want)) || !strings.Contains(err.Error(), `"job"`) {
				t.Errorf("%s: %v, %v; want %v", how, h, err, want)
			}
			if n := faults.Count("Txn").Calls - before; n != 1 {
				t.Errorf("%s sent %d transactions", how, n)
			}
		}
	}
	mustUnlock(t, mustLock(t, m))
}
