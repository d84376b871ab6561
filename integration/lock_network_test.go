//go:build unix

package integration

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

// https://github.com/mike-marcacci/node-redlock/pull/369, https://github.com/leandromoreira/redlock-rb/issues/36: a lock that took longer
// to get than it lasts was handed out, and could even be extended.
func TestLockIsNotHandedOutWhenTheNetworkIsSlowerThanTheLease(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, nil)
	proxy := etcdtest.StartProxy(t, cluster.Endpoints()[0])
	client := cluster.Client(t, etcdtest.Via(proxy))
	const ttl = 3 * time.Second
	s, err := session.New(t.Context(), client, &session.Options{TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m := lock.NewMutex(s, "job")
	proxy.Delay(etcdtest.Replies, ttl+500*time.Millisecond)
	began := time.Now()
	h, err := m.Lock(t.Context())
	if h != nil || !errors.Is(err, session.ErrExpired) {
		t.Errorf("Lock = %v, %v", h, err)
	}
	if took := time.Since(began); took > ttl+time.Second {
		t.Errorf("the refusal took %v", took)
	}
	// The acknowledgements of renewals arrive by now, and revive nothing.
	proxy.Delay(etcdtest.Replies, 0)
	s.Internal().RenewNow(t.Context())
	time.Sleep(ttl / 2)
	if s.Err() == nil || s.Remaining() != 0 {
		t.Errorf("the session is alive again: %v left", s.Remaining())
	}
	if _, err := m.TryLock(t.Context()); !errors.Is(err, session.ErrExpired) {
		t.Errorf("TryLock: %v", err)
	}
	etcdtest.AssertEmpty(t, cluster.Client(t), "/fencedlock/", 3*ttl)
}

// A request without a limit of its own hangs on a dead connection while the session lives on another one.
func TestEndpointThatLosesRepliesOnlyCostsTime(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, nil)
	good, bad := etcdtest.StartProxy(t, cluster.Endpoints()[0]), etcdtest.StartProxy(t, cluster.Endpoints()[0])
	var faults etcdtest.Faults
	client := cluster.Client(t, etcdtest.Via(good, bad), faults.Apply)
	const ttl = 6 * time.Second
	s, err := session.New(t.Context(), client, &session.Options{TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m := lock.NewMutex(s, "job")
	for range 4 { // both connections are in use
		cycle(t, m, ttl)
	}
	bad.BlackHole(etcdtest.Replies)
	began := time.Now()
	const cycles = 3
	var last *lock.Held
	for range cycles {
		h := cycle(t, m, 5*ttl)
		if last != nil && h.Token() <= last.Token() {
			t.Errorf("token %d after %d", h.Token(), last.Token())
		}
		last = h
	}
	t.Logf("%d cycles took %v, %d transactions", cycles, time.Since(began), faults.Count("Txn").Calls)
	if err := s.Err(); err != nil {
		t.Errorf("the session: %v", err)
	}
	// Somebody else is not blocked by what may have been left behind.
	other, err := session.New(t.Context(), cluster.Client(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	cycle(t, lock.NewMutex(other, "job"), ttl)
	bad.Heal()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	etcdtest.AssertEmpty(t, cluster.Client(t), "/fencedlock/", 0)
}

func cycle(t *testing.T, m *lock.Mutex, within time.Duration) *lock.Held {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	h, err := m.Lock(ctx)
	if err != nil {
		t.Fatalf("Lock: %v", err)
	}
	if err := release(h); err != nil {
		t.Fatalf("Unlock: %v", err)
	}
	return h
}

// release unlocks, and asks again while that is not confirmed: each attempt may meet the bad endpoint.
func release(h *lock.Held) (err error) {
	for range 4 {
		if err = h.Unlock(); !errors.Is(err, lock.ErrUnconfirmed) {
			break
		}
	}
	return err
}

// A connection that is half open: the watch's member is not heard any more, while renewals and reads pass elsewhere.
func TestWaiterOnAHalfOpenConnectionGetsTheLock(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, nil)
	proxies := []*etcdtest.Proxy{etcdtest.StartProxy(t, cluster.Endpoints()[0]), etcdtest.StartProxy(t, cluster.Endpoints()[0])}
	var faults etcdtest.Faults
	const ttl = 6 * time.Second
	s, err := session.New(t.Context(), cluster.Client(t, etcdtest.Via(proxies...), faults.Apply), &session.Options{TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	direct, err := session.New(t.Context(), cluster.Client(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	for i, silent := range proxies { // one of the two carries the watch
		h, err := lock.NewMutex(direct, "job").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		sent := faults.Count("Watch").Received
		got := make(chan error, 1)
		go func() {
			h, err := lock.NewMutex(s, "job").Lock(t.Context())
			if err == nil {
				err = release(h)
			}
			got <- err
		}()
		for faults.Count("Watch").Received < sent+2 {
			time.Sleep(10 * time.Millisecond)
		}
		silent.Hold(etcdtest.Both)
		began := time.Now()
		if err := h.Unlock(); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-got:
			if err != nil {
				t.Errorf("proxy %d silent: %v", i, err)
			}
			t.Logf("proxy %d silent: locked and unlocked within %v", i, time.Since(began))
		case <-time.After(5 * ttl): // with the watch alone it would be never
			t.Fatalf("proxy %d silent: the waiter did not get the lock", i)
		}
		silent.Heal()
	}
	if err := s.Err(); err != nil {
		t.Errorf("the session: %v", err)
	}
}
