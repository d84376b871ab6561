package lock

import (
	"encoding/json"
	"testing"
	"time"
	"unicode/utf8"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/fencedlock/guard"
)

func entryWith(value string) Entry {
	return entryOf(&mvccpb.KeyValue{Value: []byte(value), ModRevision: 42, Lease: 7})
}

func TestEntryOfAnotherLibrarysKeyHasItsTokenOnly(t *testing.T) {
	for _, value := range []string{"", "web-1", "null", "7", "[]", `"x"`, `{"v":"1"}`, `{"v":1,"pid":"1"}`, `{"v":1,"ttl":1e999}`, `{"v":1`, "\xff\x00"} {
		if got, want := entryWith(value), (Entry{Token: 42, Lease: 7}); got != want {
			t.Errorf("%q: %+v, want %+v", value, got, want)
		}
	}
}

// A TTL that etcd cannot grant is none. Converted as it is, it would be another one on each processor.
func TestEntrysTTLIsOneThatALeaseCanHave(t *testing.T) {
	for _, c := range []struct {
		ttl  string
		want time.Duration
	}{
		{"15", 15 * time.Second},
		{"0.5", 500 * time.Millisecond},
		{"9e9", 9e9 * time.Second},
		{"9.1e9", 0},
		{"1e300", 0},
		{"-1", 0},
		{"-1e300", 0},
	} {
		if got := entryWith(`{"v":1,"ttl":` + c.ttl + `}`).TTL; got != c.want {
			t.Errorf("ttl %s: %v, want %v", c.ttl, got, c.want)
		}
	}
}

// A key in a queue can be written by anybody; whoever lists a lock reads it.
func FuzzEntry(f *testing.F) {
	value, nonce := newRecord(`{"v":1,"owner":"web-1:7","host":"web-1","pid":7,"ttl":15`)
	for _, s := range []string{value, "", "web-1", "{}", `{"v":1,"ttl":1e300}`, `{"v":1,"ttl":-5}`, `{"v":2,"more":1}`, `{"since":"9999-12-31T23:59:59Z"}`,
		`{"pid":9223372036854775807}`, `{"nonce":"a","Nonce":"b"}`, "{\"owner\":\"\xff\\ud800\\u0000\"}"} {
		f.Add([]byte(s), int64(42), int64(7))
	}
	if got := nonceOf([]byte(value)); got != nonce || nonce == "" {
		f.Fatalf("the nonce %q of %s is read as %q", nonce, value, got)
	}
	f.Fuzz(func(t *testing.T, value []byte, rev, lease int64) {
		if rev <= 0 { // no key has such a revision
			return
		}
		e := entryOf(&mvccpb.KeyValue{Value: value, ModRevision: rev, Lease: lease})
		if e.Token != guard.Token(rev) || e.Lease != clientv3.LeaseID(lease) {
			t.Errorf("%q at revision %d on lease %d: token %d, lease %d", value, rev, lease, e.Token, e.Lease)
		}
		if e.TTL < 0 || e.TTL > maxTTL {
			t.Errorf("%q: TTL %v", value, e.TTL)
		}
		if !utf8.ValidString(e.Owner) || !utf8.ValidString(e.Host) || !utf8.ValidString(nonceOf(value)) {
			t.Errorf("%q: %+v is no text", value, e)
		}
		if !json.Valid(value) && (nonceOf(value) != "" || e != Entry{Token: e.Token, Lease: e.Lease}) {
			t.Errorf("%q is no JSON and was taken for %+v", value, e)
		}
		if _, err := json.Marshal(e); err != nil { // tools print it
			t.Errorf("%q: %+v: %v", value, e, err)
		}
	})
}
