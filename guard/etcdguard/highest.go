package etcdguard

import (
	"context"
	"fmt"

	"github.com/fencedlock/fencedlock/guard"
)

// Highest implements [guard.Sealer]. It is a linearizable read: marks of writes that were acknowledged before it are seen.
// ctx governs the call. A mark that cannot be read is an error.
func (g *Guard) Highest(ctx context.Context, resource string) (guard.Token, error) {
	if err := g.made(); err != nil {
		return 0, err
	}
	if err := guard.CheckResource(resource); err != nil {
		return 0, err
	}
	s, err := g.read(ctx, resource)
	return s.token, err
}

func (g *Guard) read(ctx context.Context, resource string) (state, error) {
	key := g.key(resource)
	if ctx.Err() != nil {
		return state{}, because(ctx, fmt.Errorf("etcdguard: the mark of %q was not read", resource))
	}
	resp, err := g.kv.Get(ctx, key)
	if err != nil {
		return state{}, because(ctx, fmt.Errorf("etcdguard: reading the mark of %q, key %q: %w", resource, key, err))
	}
	return parse(resource, key, resp.Kvs)
}
