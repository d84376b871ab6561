package integration

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

// survives checks that nothing about a hold has changed and that its session is renewed.
func survives(t *testing.T, s *session.Session, h *lock.Held, during func()) {
	t.Helper()
	lease, token, key := s.Lease(), h.Token(), h.Key()
	during()
	renewed(t, s, s.TTL())
	if s.Err() != nil || h.Err() != nil || h.Context().Err() != nil {
		t.Fatalf("the session's Err() = %v, the lock's = %v", s.Err(), h.Err())
	}
	resp, err := s.Client().Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if s.Lease() != lease || h.Token() != token || len(resp.Kvs) != 1 || resp.Kvs[0].ModRevision != int64(token) {
		t.Errorf("lease %x, was %x; token %d, was %d; key %v", s.Lease(), lease, h.Token(), token, resp.Kvs)
	}
	if err := h.Unlock(); err != nil {
		t.Error(err)
	}
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// https://github.com/cirello-io/dynamolock/issues/280, https://github.com/hashicorp/consul/issues/1162
func TestHoldSurvivesARestartOfTheOnlyServer(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, nil)
	s := openSession(t, cluster.Client(t), 10*time.Second)
	survives(t, s, held(t, s, "job"), func() {
		cluster.Member(0).Stop()
		time.Sleep(3 * time.Second)
		if err := cluster.Member(0).Restart(within(t, 20*time.Second)); err != nil {
			t.Fatal(err)
		}
	})
}

// https://github.com/hashicorp/consul/pull/912, https://github.com/etcd-io/etcd/issues/6922
func TestHoldSurvivesTheDeathOfTheLeader(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, &etcdtest.Options{Members: 3})
	s := openSession(t, cluster.Client(t), 10*time.Second)
	survives(t, s, held(t, s, "job"), func() {
		cluster.Member(cluster.Leader()).Stop()
		if _, err := cluster.WaitLeader(within(t, 20*time.Second)); err != nil {
			t.Fatal(err)
		}
	})
}

// The connection to the one member falls silent, all others work.
//
// https://github.com/etcd-io/etcd/issues/7321, https://github.com/coredns/coredns/pull/6351
func TestHoldSurvivesTheSilenceOfTheEndpointInUse(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, &etcdtest.Options{Members: 3})
	var proxies []*etcdtest.Proxy
	for _, endpoint := range cluster.Endpoints() {
		proxies = append(proxies, etcdtest.StartProxy(t, endpoint))
	}
	s := openSession(t, cluster.Client(t, etcdtest.Via(proxies...)), 4*time.Second)
	h := held(t, s, "job")
	renewed(t, s, s.TTL())
	used := inUse(t, s, proxies)
	survives(t, s, h, func() {
		used.BlackHole(etcdtest.Both)
		for began := time.Now(); time.Since(began) < s.TTL(); {
			renewed(t, s, s.TTL())
		}
	})
}

// inUse returns the proxy that the renewals of s go through.
func inUse(t *testing.T, s *session.Session, proxies []*etcdtest.Proxy) *etcdtest.Proxy {
	t.Helper()
	for {
		before := make([]int64, len(proxies))
		for i, p := range proxies {
			before[i] = p.Stats().Requests
		}
		s.Internal().RenewNow(t.Context())
		var used []*etcdtest.Proxy
		for i, p := range proxies {
			if p.Stats().Requests > before[i] {
				used = append(used, p)
			}
		}
		if len(used) == 1 {
			return used[0]
		}
		if s.Err() != nil {
			t.Fatal(s.Err())
		}
	}
}

// A member that has lost the others cannot renew; it is to say so at once, and the client is to go to another.
//
// https://github.com/etcd-io/etcd/issues/7321
func TestHoldSurvivesTheIsolationOfTheMemberInUse(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, &etcdtest.Options{Members: 3})
	var proxies []*etcdtest.Proxy
	for _, endpoint := range cluster.Endpoints() {
		proxies = append(proxies, etcdtest.StartProxy(t, endpoint))
	}
	s := openSession(t, cluster.Client(t, etcdtest.Via(proxies...)), 6*time.Second)
	h := held(t, s, "job")
	used := inUse(t, s, proxies)
	survives(t, s, h, func() {
		alone := cluster.Member(slices.Index(proxies, used))
		alone.Isolate()
		defer alone.Rejoin()
		for began := time.Now(); time.Since(began) < s.TTL(); {
			renewed(t, s, s.TTL())
		}
	})
}
