package integration

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

// openSession returns a session that is closed when the test ends.
func openSession(t testing.TB, c *clientv3.Client, ttl time.Duration) *session.Session {
	t.Helper()
	s, err := session.New(t.Context(), c, &session.Options{TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // of a session that is dead by then, it is an error
	return s
}

// held locks and fails the test if that does not work at once.
func held(t testing.TB, s *session.Session, name string) *lock.Held {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	h, err := lock.NewMutex(s, name).Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// sessionEnds waits for the end of the session, which must be in time.
func sessionEnds(t testing.TB, s *session.Session, within time.Duration) {
	t.Helper()
	select {
	case <-s.Context().Done():
	case <-time.After(within):
		t.Fatalf("the session has not ended within %v; %v are left", within, s.Remaining())
	}
	if cause := context.Cause(s.Context()); !errors.Is(cause, session.ErrExpired) {
		t.Errorf("cause = %v, want ErrExpired", cause)
	}
}

// renewed waits until the session has been renewed again, which shows that it lives.
func renewed(t testing.TB, s *session.Session, within time.Duration) {
	t.Helper()
	deadline := time.Now().Add(within)
	for left := s.Remaining(); ; time.Sleep(5 * time.Millisecond) {
		now := s.Remaining()
		if now > left {
			return
		}
		if left = now; time.Now().After(deadline) || now == 0 {
			t.Fatalf("the session was not renewed within %v: %v", within, s.Err())
		}
	}
}

// No packet gets through and none is refused, so only the clock can tell.
//
// https://github.com/hashicorp/consul/issues/18271, https://github.com/etcd-io/etcd/issues/7321
func TestSilentNetworkEndsTheSessionByItsOwnDeadline(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, nil)
	for _, c := range []struct {
		name string
		cut  func(*etcdtest.Proxy)
	}{
		{"all is lost", func(p *etcdtest.Proxy) { p.BlackHole(etcdtest.Both) }},
		{"all is held up", func(p *etcdtest.Proxy) { p.Hold(etcdtest.Both) }},
		{"replies are lost", func(p *etcdtest.Proxy) { p.BlackHole(etcdtest.Replies) }},
		{"connections are refused", func(p *etcdtest.Proxy) { p.Refuse() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := etcdtest.StartProxy(t, cluster.Endpoints()[0])
			s := openSession(t, cluster.Client(t, etcdtest.Via(p)), 3*time.Second)
			h := held(t, s, c.name)
			c.cut(p)
			sessionEnds(t, s, s.TTL())
			if !errors.Is(h.Err(), lock.ErrLost) || s.Remaining() != 0 {
				t.Errorf("the lock's Err() = %v, Remaining() = %v; want ErrLost and 0", h.Err(), s.Remaining())
			}
		})
	}
}

// The network is silent for longer than the lease, and somebody else has the lock meanwhile. What comes back is a new
// session at most, with new tokens.
//
// https://github.com/swarthy/redis-semaphore/issues/175, https://github.com/go-redsync/redsync/pull/149
func TestSessionThatWasLostStaysLostWhenTheNetworkComesBack(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, nil)
	p := etcdtest.StartProxy(t, cluster.Endpoints()[0])
	client := cluster.Client(t, etcdtest.Via(p))
	s, other := openSession(t, client, 2*time.Second), openSession(t, cluster.Client(t), time.Minute)
	h := held(t, s, "job")

	p.Hold(etcdtest.Both)
	between := held(t, other, "job")
	if h.Err() == nil {
		t.Fatal("two holders")
	}
	if err := between.Unlock(); err != nil {
		t.Fatal(err)
	}
	p.Heal() // what was sent meanwhile arrives, renewals too

	again := openSession(t, client, 2*time.Second)
	next := held(t, again, "job")
	renewed(t, again, 5*time.Second)
	if !errors.Is(s.Err(), session.ErrExpired) || !errors.Is(h.Err(), lock.ErrLost) || s.Context().Err() == nil {
		t.Errorf("the session's Err() = %v, the lock's = %v; want ErrExpired and ErrLost", s.Err(), h.Err())
	}
	if _, err := lock.NewMutex(s, "job").TryLock(t.Context()); !errors.Is(err, session.ErrExpired) {
		t.Errorf("TryLock on the dead session = %v, want ErrExpired", err)
	}
	if h.Token() >= between.Token() || between.Token() >= next.Token() {
		t.Errorf("tokens %d, %d, %d do not rise", h.Token(), between.Token(), next.Token())
	}
	if err := next.Unlock(); err != nil {
		t.Error(err)
	}
}

// A lease whose grant takes longer than it lasts is dead when it arrives.
//
// https://github.com/mike-marcacci/node-redlock/pull/369, https://github.com/leandromoreira/redlock-rb/issues/36,
// https://github.com/mike-marcacci/node-redlock/pull/167
func TestNothingIsAcquiredOverANetworkSlowerThanTheLease(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, nil)
	t.Run("session", func(t *testing.T) {
		t.Parallel()
		p := etcdtest.StartProxy(t, cluster.Endpoints()[0])
		client := cluster.Client(t, etcdtest.Via(p))
		if err := openSession(t, client, 3*time.Second).Close(); err != nil { // it is connected now
			t.Fatal(err)
		}
		p.Delay(etcdtest.Replies, 3500*time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		s, err := session.New(ctx, client, &session.Options{TTL: 3 * time.Second})
		if err == nil {
			s.Close()
			t.Fatal("New returned a session, and no reply can come within its lease")
		}
		if !strings.Contains(err.Error(), p.Addr()) {
			t.Errorf("New = %q, want the endpoint in it", err)
		}
	})
	t.Run("lock", func(t *testing.T) {
		t.Parallel()
		p := etcdtest.StartProxy(t, cluster.Endpoints()[0])
		s := openSession(t, cluster.Client(t, etcdtest.Via(p)), 3*time.Second)
		p.Delay(etcdtest.Replies, 3500*time.Millisecond)
		_, err := lock.NewMutex(s, "job").Lock(t.Context())
		if !errors.Is(err, session.ErrExpired) {
			t.Errorf("Lock = %v, want ErrExpired", err)
		}
		p.Heal()
		// The put arrived, so there was a key; the end of the lease takes it away.
		other := openSession(t, cluster.Client(t), time.Minute)
		if err := held(t, other, "job").Unlock(); err != nil {
			t.Error(err)
		}
	})
}

// Slow is not dead: replies that take a quarter of the lease are waited for.
//
// https://github.com/mike-marcacci/node-redlock/pull/369
func TestSessionLivesOnASlowNetwork(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, nil)
	p := etcdtest.StartProxy(t, cluster.Endpoints()[0])
	p.Delay(etcdtest.Replies, time.Second)
	s := openSession(t, cluster.Client(t, etcdtest.Via(p)), 4*time.Second)
	h := held(t, s, "job")
	for range 2 {
		renewed(t, s, 10*time.Second)
	}
	if err := h.Unlock(); err != nil {
		t.Error(err)
	}
	p.Heal()
}
