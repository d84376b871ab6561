//go:build unix

package store

import (
	"context"

	"github.com/fencedlock/fencedlock/guard"
)

// marks are those of a store's guard. Without guarded nobody seals, and writes go past it.
type marks[G guard.Sealer] struct {
	g       G
	guarded bool
}

func (m marks[G]) Seal(ctx context.Context, resource string, tok guard.Token) error {
	if !m.guarded {
		return nil
	}
	return m.g.Seal(ctx, resource, tok)
}

func (m marks[G]) Highest(ctx context.Context, resource string) (guard.Token, error) {
	return m.g.Highest(ctx, resource)
}
