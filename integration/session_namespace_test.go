package integration

import (
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

// wrapped gives the client to a tenant, as far as it is said.
func wrapped(c *clientv3.Client, tenant string, watcher, lease bool) *clientv3.Client {
	c.KV = namespace.NewKV(c.KV, tenant)
	if watcher {
		c.Watcher = namespace.NewWatcher(c.Watcher, tenant)
	}
	if lease {
		c.Lease = namespace.NewLease(c.Lease, tenant)
	}
	return c
}

// With a client of which only KV is in the namespace no watch ever tells anything; locks exclude all the same, and hand over
// when the waiter reads again.
//
// https://github.com/gluster/glusterd2/pull/486, https://github.com/lightningnetwork/lnd/pull/4869,
// https://github.com/etcd-io/etcd/pull/7748
func TestLocksOfNamespacedClients(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, nil)
	direct := cluster.Client(t)
	for _, c := range []struct {
		name           string
		watcher, lease bool
		handover       time.Duration // within
	}{
		{"all is wrapped", true, true, 500 * time.Millisecond},
		{"only KV is wrapped", false, false, 3 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			tenant := "tenant " + c.name
			open := func(tenant string) *session.Session {
				return openSession(t, wrapped(cluster.Client(t), tenant, c.watcher, c.lease), 3*time.Second)
			}
			a, b, stranger := open(tenant), open(tenant), open("another "+tenant)
			h := held(t, a, "job")
			if other := held(t, stranger, "job"); other.Unlock() != nil {
				t.Error("the tenants are in each other's way")
			}
			if !strings.HasPrefix(h.Key(), "/fencedlock/") {
				t.Errorf("Key() = %q, want it as the client sees it", h.Key())
			}
			if resp, err := direct.Get(t.Context(), tenant+h.Key()); err != nil || len(resp.Kvs) != 1 {
				t.Errorf("the tenant has no key %q: %v", tenant+h.Key(), err)
			}

			type got struct {
				h   *lock.Held
				err error
				at  time.Time
			}
			next := make(chan got, 1)
			go func() {
				h, err := lock.NewMutex(b, "job").Lock(t.Context())
				next <- got{h, err, time.Now()}
			}()
			for { // until it waits
				status, err := lock.NewMutex(a, "job").Status(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if len(status.Waiters) == 1 {
					break
				}
			}
			released := time.Now()
			if h.Err() != nil || h.Unlock() != nil {
				t.Fatalf("the hold was lost: %v", h.Err())
			}
			g := <-next
			if g.err != nil {
				t.Fatal(g.err)
			}
			if g.at.Before(released) || g.h.Token() <= h.Token() {
				t.Errorf("token %d came %v after token %d was released", g.h.Token(), g.at.Sub(released), h.Token())
			}
			if took := g.at.Sub(released); took > c.handover {
				t.Errorf("the waiter got the lock %v after it was free, want %v at most", took, c.handover)
			}
			if err := g.h.Unlock(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A session that dies takes its keys along, wherever the client has put them.
func TestLeaseOfANamespacedClientTakesItsKeysAlong(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, nil)
	s := openSession(t, wrapped(cluster.Client(t), "tenant", true, true), time.Minute)
	held(t, s, "job")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	etcdtest.AssertEmpty(t, cluster.Client(t), "", 0)
}
