package blobguard

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Purge removes resource without a trace: the object, its mark, and with [Pointer] its data. It is not guarded, and leaves no
// guard behind: any holder's write, however late, creates the object anew. So it is for resources that nobody will ever write
// again, and for those whose mark was lost, when it is sure that no former holder writes any more. A Purge that failed may
// still take effect later.
//
// Delete is the guarded way to remove the content alone.
func (g *Guard) Purge(ctx context.Context, resource string) error {
	if err := g.made(); err != nil {
		return err
	}
	key, err := g.key(resource)
	if err != nil {
		return err
	}
	give, err := g.turns.take(ctx, key)
	if err != nil {
		return fmt.Errorf("blobguard: Purge %q: %w", resource, err)
	}
	defer give()
	g.turns.forget(key)
	err = g.bucket.Delete(ctx, key)
	g.turns.forget(key) // a reader may have seen it until now
	if g.codec == (pointer{}) && err == nil {
		for data, e := range g.bucket.List(ctx, dataPrefix(key)) {
			if e == nil {
				if _, ok := tokenOf(strings.TrimPrefix(data, dataPrefix(key))); ok {
					e = g.bucket.Delete(ctx, data)
				}
			}
			err = errors.Join(err, e)
		}
	}
	if err != nil {
		return fmt.Errorf("blobguard: Purge %q: %w", resource, err)
	}
	return nil
}
