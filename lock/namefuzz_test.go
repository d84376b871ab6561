package lock

import (
	"net/url"
	"strings"
	"testing"

	"github.com/fencedlock/fencedlock/internal/lease"
)

// Whatever two locks are called, in one namespace or in two: their keys never meet, nor do their resources.
func FuzzQueuesNeverMeet(f *testing.F) {
	for _, s := range [][4]string{
		{"/fencedlock/", "a", "/fencedlock/", "a/b"},
		{"/fencedlock/", "a", "/fencedlock/a/", "b"},
		{"/fencedlock/", "a/b", "/fencedlock/a/", "b"},
		{"/", "fencedlock/a", "/fencedlock/", "a"},
		{"/", "%", "/", "%25"},
		{"/", "%2F", "/", "/"},
		{"/", "a#0", "/", "a%230"},
		{"/", "a%/1-0", "/", "a"},
		{"/", "%epoch", "/", "%epoch/1"},
		{"é/", "é", "é/é/", "e\u0301"},
		{"/", "a", "/", "A"},
	} {
		f.Add(s[0], s[1], s[2], s[3])
	}
	f.Fuzz(func(t *testing.T, ns1, name1, ns2, name2 string) {
		if lease.CheckNamespace(ns1) != nil || lease.CheckNamespace(ns2) != nil {
			return
		}
		r1, err1 := resourceOf("name", name1)
		r2, err2 := resourceOf("name", name2)
		if err1 != nil || err2 != nil {
			return
		}
		q1, q2 := queueOf(ns1, name1), queueOf(ns2, name2)
		for _, x := range []struct{ ns, name, queue string }{{ns1, name1, q1}, {ns2, name2, q2}} {
			if back, err := nameOf(x.ns, x.queue); err != nil || back != x.name {
				t.Errorf("%q became the queue %q, and that %q, %v", x.name, x.queue, back, err)
			}
		}
		if strings.Contains(r1, "#") || strings.Contains(q1[len(ns1):], "#") {
			t.Errorf("%q has the resource %q and the queue %q, which look like a permit's", name1, r1, q1)
		}
		if (r1 == r2) != (name1 == name2) {
			t.Errorf("%q and %q are the resources %q and %q", name1, name2, r1, r2)
		}
		same := ns1 == ns2 && name1 == name2
		// A key is the queue's prefix and a place, which holds no slash.
		const place = "1f-0"
		if (q1 == q2) != same || strings.HasPrefix(q2+place, q1) != same {
			t.Errorf("%q in %q has the queue %q, and %q in %q has %q", name1, ns1, q1, name2, ns2, q2)
		}
		// What is no lock's lies in no queue.
		if other := ns2 + "%epoch/1f"; strings.HasPrefix(other, q1) || strings.HasPrefix(q1, ns2+"%epoch/") {
			t.Errorf("the queue %q of %q and the key %q meet", q1, name1, other)
		}
	})
}

// nameOf is the way back from queueOf. The escapes are those of URLs.
func nameOf(namespace, queue string) (string, error) {
	name, _ := strings.CutPrefix(queue, namespace)
	name, _ = strings.CutSuffix(name, "%/")
	return url.PathUnescape(name)
}
