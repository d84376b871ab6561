package blobguard

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/fencedlock/fencedlock/guard"
)

// remembered is how many keys a guard remembers beside those that are in use. It bounds the memory: about 2 MiB with keys of
// 100 bytes.
const remembered = 4096

// known is what the guard has seen last at a key.
type known struct {
	version Version // never ""
	mark    guard.Token
	id      nonce // of the object
	before  nonce // of its stamp
	past    past  // of its stamp
	at      time.Time
}

// turns lets one write at a time at each key, and remembers what the keys hold.
type turns struct {
	mu   sync.Mutex
	keys map[string]*turn // guarded by mu
	idle list.List        // of keys that are remembered only, the oldest first; guarded by mu
}

// turn is one key. Its fields but free are guarded by turns.mu.
type turn struct {
	free  chan struct{} // holds one element while somebody has the turn
	users int           // who has the turn or waits for it
	seen  known
	knows bool
	place *list.Element // in idle; nil while there are users

	changes int // of seen and knows
	purges  int // those by forget
}

// enter returns the key's turn, which is kept until leave is called.
func (t *turns) enter(key string) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.keys[key]
	if k == nil {
		k = t.add(key)
	}
	if k.place != nil {
		t.idle.Remove(k.place)
		k.place = nil
	}
	k.users++
	return k
}

func (t *turns) leave(key string, k *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k.users--; k.users == 0 {
		t.rest(key, k)
	}
}

// take waits for the key's turn; give returns it.
func (t *turns) take(ctx context.Context, key string) (give func(), err error) {
	k := t.enter(key)
	if err := ctx.Err(); err != nil {
		t.leave(key, k)
		return nil, err
	}
	select {
	case k.free <- struct{}{}:
		return func() { <-k.free; t.leave(key, k) }, nil
	case <-ctx.Done():
		t.leave(key, k)
		return nil, ctx.Err()
	}
}

// add is called with mu held.
func (t *turns) add(key string) *turn {
	if t.keys == nil {
		t.keys = make(map[string]*turn)
	}
	k := &turn{free: make(chan struct{}, 1)}
	t.keys[key] = k
	return k
}

// rest keeps a key that nobody uses, as long as there is room and anything to remember. It is called with mu held.
func (t *turns) rest(key string, k *turn) {
	if !k.knows {
		delete(t.keys, key)
		return
	}
	k.place = t.idle.PushBack(key)
	for t.idle.Len() > remembered {
		delete(t.keys, t.idle.Remove(t.idle.Front()).(string))
	}
}

// recall returns what is known of the key.
func (t *turns) recall(key string) (known, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k := t.keys[key]; k != nil {
		return k.seen, k.knows
	}
	return known{}, false
}

// learn remembers what somebody who has the turn has written.
func (t *turns) learn(key string, seen known) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k := t.keys[key]; k != nil {
		k.learn(seen)
	}
}

func (k *turn) learn(seen known) { k.seen, k.knows, k.changes = seen, true, k.changes+1 }

// forget is for what is purged.
func (t *turns) forget(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k := t.keys[key]; k != nil {
		k.seen, k.knows = known{}, false
		k.changes++
		k.purges++
	}
}

// visit is a read of a key, which does not need the turn and so may come late with what it has seen.
type visit struct {
	t               *turns
	key             string
	k               *turn
	before          known // what was known when it began
	knew            bool
	changes, purges int
}

// visit begins one. The caller calls leave at its end.
func (t *turns) visit(key string) *visit {
	k := t.enter(key)
	t.mu.Lock()
	defer t.mu.Unlock()
	return &visit{t: t, key: key, k: k, before: k.seen, knew: k.knows, changes: k.changes, purges: k.purges}
}

func (v *visit) leave() { v.t.leave(v.key, v.k) }

// purged tells whether the key was forgotten since.
func (v *visit) purged() bool {
	v.t.mu.Lock()
	defer v.t.mu.Unlock()
	return v.k.purges != v.purges
}

// learn remembers what was seen, unless there is something newer, or it was purged since.
func (v *visit) learn(seen known) {
	v.t.mu.Lock()
	defer v.t.mu.Unlock()
	if v.k.changes == v.changes {
		v.k.learn(seen)
	}
}
