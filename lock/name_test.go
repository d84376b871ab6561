package lock_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	clientns "go.etcd.io/etcd/client/v3/namespace"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

// oddNames are n distinct names that a careless key would confuse.
func oddNames(n int) []string {
	names := map[string]bool{}
	for _, name := range []string{"/", "//", "a", "a/", "/a", "a/b", "a/b/", "a//b", "a%", "a%/", "a%2F", "a%2Fb", "a%252Fb", "%", "%/", "%25", "%2F",
		"#", "a#", "a#0", "a%23", "a%230", "%epoch", "%epoch/1", "../a", "..", ".", " ", " a", "a ", "a\t", "a\n", "A", "é", "e\u0301", "😀",
		"\u2028", "a\x01", "-0", "a-0", "a%/1-0", "*", "a*", "a\\", "\"", strings.Repeat("x", 511), strings.Repeat("x", 512)} {
		names[name] = true
	}
	pieces := []string{"a", "b", "/", "%", "#", "25", "2F", "23", "%/", "é", "-"}
	rng := rand.New(rand.NewPCG(1, 2))
	for len(names) < n {
		var name strings.Builder
		for range 1 + rng.IntN(6) {
			name.WriteString(pieces[rng.IntN(len(pieces))])
		}
		names[name.String()] = true
	}
	var list []string
	for name := range names {
		list = append(list, name)
	}
	return list
}

// https://github.com/etcd-io/etcd/pull/6284, https://github.com/etcd-io/etcd/pull/14652: odd names locked everything or nothing. Here
// each name is a lock of its own, in each namespace, also when one namespace lies in another.
func TestDistinctNamesNeverMeet(t *testing.T) {
	ns := namespace(t)
	type place struct{ what, queue, key string }
	var places []place
	resources := map[string]string{}
	for inner, n := range map[string]int{"": 200, "a/": 0, "a/b/": 0, "/": 0, "b/a/": 0} {
		s := open(t, direct, session.Options{Namespace: ns + inner})
		for _, name := range oddNames(n) {
			h, err := lock.NewMutex(s, name).TryLock(t.Context())
			if err != nil {
				t.Fatalf("%q in %q: %v", name, ns+inner, err)
			}
			places = append(places, place{inner + " " + name, h.Key()[:strings.LastIndex(h.Key(), "/")+1], h.Key()})
			if other, ok := resources[h.Resource()]; ok && other != name {
				t.Errorf("%q and %q are one resource: %q", name, other, h.Resource())
			}
			if strings.Contains(h.Resource(), "#") {
				t.Errorf("%q is the resource %q, which looks like a permit's", name, h.Resource())
			}
			resources[h.Resource()] = name
		}
	}
	for _, p := range places {
		for _, q := range places {
			if p != q && strings.HasPrefix(q.key, p.queue) {
				t.Errorf("the key %q of %q is in the queue of %q", q.key, q.what, p.what)
			}
		}
	}
	if len(places) < 350 {
		t.Errorf("%d locks were held at once", len(places))
	}
}

// https://github.com/gluster/glusterd2/pull/486, https://github.com/etcd-io/etcd/pull/7748: a client of which only a part was moved to a
// namespace missed its wake-ups, or let two tenants meet.
func TestTenantsOfNamespacedClientsAreIndependent(t *testing.T) {
	ns := namespace(t)
	var faults etcdtest.Faults
	tenant := func(prefix string) *clientv3.Client {
		c := cluster.Client(t, faults.Apply, login)
		c.KV = clientns.NewKV(c.KV, ns+prefix)
		c.Watcher = clientns.NewWatcher(c.Watcher, ns+prefix)
		c.Lease = clientns.NewLease(c.Lease, ns+prefix)
		return c
	}
	a, b := tenant("a"), tenant("b")
	first := mustLock(t, lock.NewMutex(open(t, a, session.Options{}), "job"))
	if kv := find(t, ns+"a"+first.Key()); kv == nil || kv.ModRevision != int64(first.Token()) {
		t.Errorf("the key is not in the tenant's namespace: %v", kv)
	}
	other, err := lock.NewMutex(open(t, b, session.Options{}), "job").TryLock(t.Context())
	if err != nil {
		t.Fatalf("another tenant: %v", err)
	}
	mustUnlock(t, other)
	m := lock.NewMutex(open(t, a, session.Options{}), "job")
	waiter := goLock(t.Context(), m)
	awaitQueue(t, ns+"a/fencedlock/", "job", 2)
	awaitWatches(t, &faults, 3)
	mustUnlock(t, first)
	second := receiveWithin(t, waiter, quick)
	if second.err != nil {
		t.Fatal(second.err)
	}
	// Its loss is seen as well.
	eventually(t, "the loss is seen", func() bool {
		remove(t, ns+"a"+second.h.Key())
		return second.h.Err() != nil
	})
	_ = second.h.Unlock()
}

// With the KV moved and the Watcher left behind no watch ever says anything. Waiters read again from time to time.
func TestWatcherOutsideOfTheNamespaceOnlyCostsTime(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	faults, c := faulty(t)
	c.KV = clientns.NewKV(c.KV, ns)
	o := session.Options{TTL: 3 * time.Second}
	first := mustLock(t, lock.NewMutex(open(t, c, o), "job"))
	s := open(t, c, o)
	waiter := goLock(t.Context(), lock.NewMutex(s, "job"))
	awaitQueue(t, ns+"/fencedlock/", "job", 2)
	awaitWatches(t, faults, 3)
	mustUnlock(t, first)
	second := receiveWithin(t, waiter, s.TTL())
	if second.err != nil {
		t.Fatal(second.err)
	}
	remove(t, ns+second.h.Key())
	awaitLoss(t, second.h, s.TTL())
}

// awaitWatches waits until n watches are confirmed and what they set off is over.
func awaitWatches(t *testing.T, f *etcdtest.Faults, n int) {
	t.Helper()
	eventually(t, "all watches are open", func() bool { return f.Count("Watch").Received >= n })
	time.Sleep(100 * time.Millisecond)
}
