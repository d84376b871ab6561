//go:build unix

package integration

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

// https://github.com/etcd-io/etcd/issues/12385, https://github.com/etcd-io/etcd/issues/11954, https://github.com/etcd-io/etcd/issues/12157:
// a watch could not be opened again, nor a lock be released, once the client's token had run out.
func TestLocksOutliveTheClientsAuthTokens(t *testing.T) {
	t.Parallel()
	const tokenTTL = 2 * time.Second
	const expired = tokenTTL + 1500*time.Millisecond // the server looks once a second
	cluster := etcdtest.Start(t, &etcdtest.Options{AuthTokenTTL: tokenTTL})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := cluster.EnableAuth(ctx, "secret", etcdtest.User{Name: "worker", Password: "pw", Prefix: "/jobs/"}); err != nil {
		t.Fatal(err)
	}
	open := func(ns string, edits ...etcdtest.Edit) *session.Session {
		t.Helper()
		c := cluster.Client(t, append(edits, etcdtest.As("worker", "pw"))...)
		s, err := session.New(ctx, c, &session.Options{Namespace: ns, TTL: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	var faults etcdtest.Faults
	sb := open("/jobs/", faults.Apply)
	a, b, other := lock.NewMutex(open("/jobs/"), "job"), lock.NewMutex(sb, "job"), lock.NewMutex(sb, "other")
	holder, err := a.Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	type outcome struct {
		h   *lock.Held
		err error
	}
	got := make(chan outcome, 1)
	go func() {
		h, err := b.Lock(ctx)
		got <- outcome{h, err}
	}()
	for faults.Count("Watch").Received < 2 { // b waits
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(expired)
	if err := cluster.Member(0).Restart(ctx); err != nil { // forgets all tokens as well
		t.Fatal(err)
	}
	time.Sleep(expired)
	began := time.Now()
	if err := holder.Unlock(); err != nil {
		t.Errorf("Unlock: %v", err)
	}
	select {
	case o := <-got:
		if o.err != nil {
			t.Fatal(o.err)
		}
		// Much sooner than the next time it would look by itself.
		took := time.Since(began)
		t.Logf("handed over after %v", took)
		if took > 3*time.Second {
			t.Errorf("the waiter got the lock after %v", took)
		}
		time.Sleep(expired)
		if err := o.h.Err(); err != nil {
			t.Errorf("the hold: %v", err)
		}
		if err := o.h.Unlock(); err != nil {
			t.Errorf("Unlock by the waiter: %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the waiter did not get the lock")
	}
	if h, err := a.TryLock(ctx); err != nil {
		t.Errorf("the free lock: %v", err)
	} else if err := h.Unlock(); err != nil {
		t.Error(err)
	}

	// A stream keeps the token that it was opened with: watches that come later are refused on it.
	bystander, err := a.Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	watched := faults.Count("Watch")
	keeper, err := other.TryLock(ctx) // keeps b's stream open
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(expired)
	go func() {
		h, err := b.Lock(ctx)
		got <- outcome{h, err}
	}()
	time.Sleep(time.Second)
	began = time.Now()
	if err := bystander.Unlock(); err != nil {
		t.Error(err)
	}
	o := <-got
	if o.err != nil {
		t.Fatal(o.err)
	}
	took, now := time.Since(began), faults.Count("Watch")
	t.Logf("handed over after %v; %d watches, %d streams", took, now.Sent-watched.Sent, now.Calls-watched.Calls)
	if took > 500*time.Millisecond || now.Sent-watched.Sent > 10 {
		t.Errorf("the waiter had no watch: it got the lock after %v and asked for %d watches", took, now.Sent-watched.Sent)
	}
	for _, h := range []*lock.Held{o.h, keeper} {
		if err := h.Unlock(); err != nil {
			t.Error(err)
		}
	}

	// What is really not allowed is told at once.
	began = time.Now()
	if _, err := lock.NewMutex(open("/other/"), "job").Lock(ctx); !errors.Is(err, rpctypes.ErrPermissionDenied) {
		t.Errorf("Lock without the right: %v", err)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("that took %v", took)
	}
	etcdtest.AssertEmpty(t, cluster.Client(t), "/jobs/job", 0)
}
