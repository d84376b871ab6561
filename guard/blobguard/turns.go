package blobguard

import (
	"container/list"
	"context"
	"sync"

	"github.com/fencedlock/fencedlock/guard"
)

// remembered is how many keys a guard remembers beside those that are in use. It bounds the memory: about 1 MiB with keys of
// 100 bytes.
const remembered = 4096

// known is what the guard has seen last at a key.
type known struct {
	version Version // never ""
	mark    guard.Token
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
}

// take waits for the key's turn; give returns it.
func (t *turns) take(ctx context.Context, key string) (give func(), err error) {
	t.mu.Lock()
	k := t.keys[key]
	if k == nil {
		k = t.add(key)
	}
	if k.place != nil {
		t.idle.Remove(k.place)
		k.place = nil
	}
	k.users++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if k.users--; k.users == 0 {
			t.rest(key, k)
		}
	}
	if err := ctx.Err(); err != nil {
		leave()
		return nil, err
	}
	select {
	case k.free <- struct{}{}:
		return func() { <-k.free; leave() }, nil
	case <-ctx.Done():
		leave()
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

// learn remembers what was seen, unless more is known: whoever has not the turn may come late with it.
func (t *turns) learn(key string, seen known) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.keys[key]
	if k == nil {
		k = t.add(key)
		defer t.rest(key, k)
	}
	if !k.knows || seen.mark >= k.seen.mark {
		k.seen, k.knows = seen, true
	}
}

// forget is for what was purged.
func (t *turns) forget(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k := t.keys[key]; k != nil {
		k.seen, k.knows = known{}, false
	}
}
