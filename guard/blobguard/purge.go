package blobguard

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fencedlock/fencedlock/guard"
)

// Purge removes resource without a trace: the object, its mark, and with [Pointer] its data. It is not guarded, and leaves no
// guard behind: any holder's write, however late, creates the object anew. So it is for resources that nobody will ever write
// again, and for those whose mark was lost, when it is sure that no former holder writes any more.
//
// It is only for when no request for the resource is under way, be it a write or another Purge. What those return at the
// same time says nothing.
//
// An error that wraps [guard.ErrUnknown] leaves open whether the object was removed, or will be by a request that is still on its
// way: it would remove what is written meanwhile, its mark included, so wait until that cannot be any more, and Purge again. After
// any other error the object is there as before, unless it says that data was left, which the next Purge removes.
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
	fail := func(err error) error { return fmt.Errorf("blobguard: Purge %q: %w", resource, err) }
	give, err := g.turns.take(ctx, key)
	if err != nil {
		return fail(err)
	}
	defer give()
	g.turns.forget(key)
	err = g.bucket.Delete(ctx, key) // once: a second request says nothing about the first
	g.turns.forget(key)             // a reader may have seen it until now
	switch {
	case errors.Is(err, ErrRefused):
		return fail(err)
	case err != nil:
		return fail(fmt.Errorf("%w: %w", guard.ErrUnknown, err))
	case g.codec != (pointer{}):
		return nil
	}
	for data, e := range g.bucket.List(ctx, dataPrefix(key)) {
		if e == nil {
			if _, ok := tokenOf(strings.TrimPrefix(data, dataPrefix(key))); ok {
				e = discard(ctx, g.bucket, data)
			}
		}
		err = errors.Join(err, e)
	}
	if err != nil {
		return fail(fmt.Errorf("the object is removed, and some of its data was left: %w", err))
	}
	return nil
}

// discardTries bounds the tries to remove one object that is of no use any more.
const discardTries = 3

// discard removes an object whose key is never written again, so that it does no harm if a request comes late or twice.
func discard(ctx context.Context, b Bucket, key string) error {
	for try := 0; ; try++ {
		err := b.Delete(ctx, key)
		if err == nil || errors.Is(err, ErrRefused) || try == discardTries-1 || pause(ctx, try) != nil {
			return err
		}
	}
}
