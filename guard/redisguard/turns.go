package redisguard

import (
	"context"
	"errors"
	"sync"
)

// turns lets one operation at a time at each resource. It keeps nothing of resources at which nobody is.
type turns struct {
	mu sync.Mutex
	m  map[string]*turn // by resource; guarded by mu
}

type turn struct {
	taken chan struct{} // holds one element while somebody has it; a channel, so that waiting can end
	users int           // who has it or waits for it; guarded by turns.mu
}

// enter waits for the turn at resource, and leave ends it.
func (t *turns) enter(ctx context.Context, resource string) (leave func(), err error) {
	t.mu.Lock()
	one := t.m[resource]
	if one == nil {
		one = &turn{taken: make(chan struct{}, 1)}
		if t.m == nil {
			t.m = make(map[string]*turn)
		}
		t.m[resource] = one
	}
	one.users++
	t.mu.Unlock()
	select {
	case one.taken <- struct{}{}:
		return func() { <-one.taken; t.drop(resource, one) }, nil
	case <-ctx.Done():
		t.drop(resource, one)
		return nil, because(ctx, errors.New("redisguard: the context ended in the wait for an earlier operation on the resource, before anything was sent"))
	}
}

func (t *turns) drop(resource string, one *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one.users--; one.users == 0 {
		delete(t.m, resource)
	}
}
