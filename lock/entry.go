package lock

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/internal/lease"
)

// An Entry is one place in a lock's queue, as its owner described it. Only Token
// and Lease come from etcd itself; the rest is for people, and is empty for keys
// that another library wrote.
type Entry struct {
	Token guard.Token      // the fencing token it has, or will have once it holds the lock
	Owner string           // session.Options.Owner
	Host  string           // the machine's name
	PID   int              // the process id there
	Lease clientv3.LeaseID // of the session; 0: the key has none, and stays until somebody deletes it
	Since time.Time        // when it came into the queue, by its own machine's clock
	TTL   time.Duration    // of the session's lease
}

// String names the owner, and what tells this place from others.
func (e Entry) String() string {
	owner := e.Owner
	if owner == "" {
		owner = "an unknown owner"
	}
	text := fmt.Sprintf("%s (token %d, lease %x", owner, int64(e.Token), int64(e.Lease))
	if !e.Since.IsZero() {
		text += ", since " + e.Since.Format(time.RFC3339)
	}
	if e.Lease == 0 {
		text += "; the key has no lease, so it stays until somebody deletes it"
	}
	return text + ")"
}

// record is what a key in a queue holds. Releases share locks, so fields are
// added, never changed; Version tells what may be missing.
type record struct {
	Version int       `json:"v"`
	Owner   string    `json:"owner"`
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	TTL     float64   `json:"ttl"` // seconds
	Since   time.Time `json:"since,omitzero"`
	Nonce   string    `json:"nonce,omitempty"`
}

const recordVersion = 1

// maxTTL is the longest lease that etcd grants.
const maxTTL = 9_000_000_000 * time.Second

var hostname = sync.OnceValue(func() string {
	name, _ := os.Hostname() // a label: without one it is empty
	return name
})

// recordHead returns the beginning of all values that a session writes.
func recordHead(l *lease.Lease) string {
	b, _ := json.Marshal(record{ // cannot fail: the fields are plain
		Version: recordVersion,
		Owner:   l.Owner(),
		Host:    hostname(),
		PID:     os.Getpid(),
		TTL:     l.TTL().Seconds(),
	})
	return string(b[:len(b)-1])
}

// newRecord returns a key's value for an acquisition that begins now, and the
// nonce in it that tells this acquisition from all others.
func newRecord(head string) (value, nonce string) {
	nonce = rand.Text()
	since := time.Now().UTC().Truncate(time.Millisecond).Format(time.RFC3339Nano)
	return head + `,"since":"` + since + `","nonce":"` + nonce + `"}`, nonce
}

// nonceOf returns the nonce in a key's value, "" if it has none.
func nonceOf(value []byte) string {
	var r record
	if json.Unmarshal(value, &r) != nil {
		return ""
	}
	return r.Nonce
}

func entryOf(kv *mvccpb.KeyValue) Entry {
	e := Entry{Token: guard.Token(kv.ModRevision), Lease: clientv3.LeaseID(kv.Lease)}
	var r record
	if json.Unmarshal(kv.Value, &r) == nil {
		e.Owner, e.Host, e.PID, e.Since = r.Owner, r.Host, r.PID, r.Since
		if r.TTL > 0 && r.TTL <= maxTTL.Seconds() { // else a stranger wrote it, and no Duration may have room for it
			e.TTL = time.Duration(r.TTL * float64(time.Second))
		}
	}
	return e
}
