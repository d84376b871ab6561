package blobguard

import (
	"context"

	"github.com/fencedlock/fencedlock/guard"
)

// Seal implements [guard.Sealer]: it writes the object again with the same content and the higher mark, or a tombstone where
// there is none. With [Pointer] that is a small write; with the other codecs the whole content goes from the store to here and
// back, through little memory and two connections at once. Errors are those of [Guard.Put].
//
// It also writes when the mark is tok already. So a Seal that returned nil ends the uncertainty after [guard.ErrUnknown]: an
// earlier write of this holder that has not landed by then never will.
func (g *Guard) Seal(ctx context.Context, resource string, tok guard.Token) error {
	if err := g.made(); err != nil {
		return err
	}
	return g.outcome(ctx, resource, tok, func() error {
		_, err := g.seal(ctx, resource, tok)
		return err
	})
}

func (g *Guard) seal(ctx context.Context, resource string, tok guard.Token) (record, error) {
	return g.write(ctx, resource, tok, edit{look: true, draft: func(ctx context.Context, key string, r record, n nonce) (draft, error) {
		if r.absent() {
			d, err := g.tombstone()
			d.sealed = r.stamped
			return d, err
		}
		content := g.content(ctx, key, r)
		switch {
		case r.stamped:
		case g.codec == (pointer{}): // adopted: the content becomes data
			return g.pointed(tok, content, r.size)(ctx, key, r, n)
		default:
			return g.place(content)
		}
		return draft{content: content, size: r.contentSize(), layout: layout{at: r.layout.at, comma: r.layout.comma}, sealed: true}, nil
	}})
}
