package lock

import (
	"container/list"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/fencedlock/fencedlock/internal/lease"
)

// queues are the local sides of all queues that one session takes part in.
type queues struct {
	recordHead string // of every value
	keyTail    string // of every key, before its number
	mu         sync.Mutex
	byPrefix   map[string]*queue // guarded by mu; only those in use
}

func queuesOf(l *lease.Lease) *queues {
	return l.Locks(func() any {
		return &queues{recordHead: recordHead(l), keyTail: fmt.Sprintf("%x-", int64(l.ID())), byPrefix: map[string]*queue{}}
	}).(*queues)
}

// A queue is where the goroutines of one session wait for one lock, first come
// first served. One of them at a time has the turn to wait in etcd, so that a
// thousand waiters cost etcd one key.
type queue struct {
	all    *queues
	prefix string
	users  int       // goroutines and keys that need this queue; guarded by all.mu
	taken  bool      // someone has the turn; guarded by all.mu
	line   list.List // of chan struct{}, closed to give the turn; guarded by all.mu
	keys   []bool    // at i: the key with number i is, or may be, in etcd; guarded by all.mu
	nonces []string  // of acquisitions that are alive; guarded by all.mu
}

// enter returns the queue of prefix; leave is to be called once for it.
func (qs *queues) enter(prefix string) *queue {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.byPrefix[prefix]
	if q == nil {
		q = &queue{all: qs, prefix: prefix}
		qs.byPrefix[prefix] = q
	}
	q.users++
	return q
}

func (q *queue) leave() {
	q.all.mu.Lock()
	defer q.all.mu.Unlock()
	q.users--
	if q.users == 0 {
		delete(q.all.byPrefix, q.prefix)
	}
}

// await waits for the turn until ctx or the session ends. It does not say which
// of the two it was.
func (q *queue) await(ctx, session context.Context) bool {
	q.all.mu.Lock()
	if !q.taken {
		q.taken = true
		q.all.mu.Unlock()
		return true
	}
	turn := make(chan struct{})
	place := q.line.PushBack(turn)
	q.all.mu.Unlock()

	select {
	case <-turn:
		return true
	case <-ctx.Done():
	case <-session.Done():
	}
	q.all.mu.Lock()
	defer q.all.mu.Unlock()
	select {
	case <-turn:
		q.passLocked() // it came at the same moment
	default:
		q.line.Remove(place)
	}
	return false
}

// pass gives the turn to the next in line.
func (q *queue) pass() {
	q.all.mu.Lock()
	defer q.all.mu.Unlock()
	q.passLocked()
}

func (q *queue) passLocked() {
	next := q.line.Front()
	if next == nil {
		q.taken = false
		return
	}
	close(q.line.Remove(next).(chan struct{}))
}

// register takes the smallest number that no key of this session has in this
// queue. Names are used again on purpose: etcd walks over deleted keys until
// they are compacted.
func (q *queue) register(nonce string) (number int) {
	q.all.mu.Lock()
	defer q.all.mu.Unlock()
	q.nonces = append(q.nonces, nonce)
	number = slices.Index(q.keys, false)
	if number < 0 {
		number = len(q.keys)
		q.keys = append(q.keys, true)
	}
	q.keys[number] = true
	return number
}

// forget says that nobody owns nonce any more: a key with it is a leftover.
func (q *queue) forget(nonce string) {
	q.all.mu.Lock()
	defer q.all.mu.Unlock()
	if i := slices.Index(q.nonces, nonce); i >= 0 {
		q.nonces = slices.Delete(q.nonces, i, i+1)
	}
}

// free says that the key with this number is surely gone.
func (q *queue) free(number int) {
	q.all.mu.Lock()
	defer q.all.mu.Unlock()
	q.keys[number] = false
}

// wanted reports whether an acquisition that is alive wrote value.
func (q *queue) wanted(value []byte) bool {
	nonce := nonceOf(value)
	q.all.mu.Lock()
	defer q.all.mu.Unlock()
	return nonce != "" && slices.Contains(q.nonces, nonce)
}
