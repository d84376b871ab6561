package blobguard

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/fencedlock/fencedlock/guard"
)

// Put makes all that content holds from its start on the content of resource, guarded by tok. Once it has returned nil, no
// Put, Delete or Seal with a lower token takes effect any more.
//
// The error is one of these:
//   - a [*guard.StaleError] if the resource has seen a higher token: nothing was written, nor will be;
//   - one that wraps [guard.ErrUnknown] if an answer was lost and the object does not tell: it was written, or will be by a
//     request that is still on its way, or neither;
//   - one that wraps [ErrMarkLost] if this Guard has seen a mark that is not there any more;
//   - one that wraps [ErrBusy] if other writers came first each time;
//   - one that wraps [guard.ErrNoToken], or [guard.CheckResource]'s, without any I/O;
//   - any other: nothing was written, which is so with ErrMarkLost and ErrBusy, too, unless they come with guard.ErrUnknown,
//     as ErrMarkLost does after a request.
//
// A lost answer alone is no ErrUnknown, nor does a conflict count alone, since something on the way may send a request twice
// and hand on the second answer. Put looks at the object, whose stamp has the random numbers of the write that made it, of the
// last 8 before it, and of the last with a lower token. Put returns nil where it finds its own there, and a StaleError where
// it finds that of the object which its request was to replace. Where the object is as it was, it sends the same write again,
// of which at most one can find its condition. So ErrUnknown is left for when the store cannot be read, and when many other
// writes came, by several later holders or with the same token.
//
// After ErrUnknown a request may still be on its way. [Guard.Seal] with the same token ends that: what you read after it is
// final, but for later holders.
//
// content is read several times, from its start, and never held in memory; it must not change until Put returns. It can be as
// large as the bucket takes in one write, on Amazon S3 5 GiB. Where this Guard has written or read the object in the last
// 5 s, Put is one request; else a read of at most 1 KiB comes first, of 8 KiB with [Pointer]. ctx governs the whole call; when
// it ends while a write is under way, the error wraps guard.ErrUnknown.
func (g *Guard) Put(ctx context.Context, resource string, tok guard.Token, content io.ReadSeeker) error {
	if err := g.made(); err != nil {
		return err
	}
	return g.outcome(ctx, resource, tok, func() error { return g.put(ctx, resource, tok, content) })
}

func (g *Guard) put(ctx context.Context, resource string, tok guard.Token, content io.ReadSeeker) error {
	if err := guard.Check(resource, tok, 0); err != nil {
		return err
	}
	if content == nil {
		return errors.New("blobguard: Put: the content is nil; Delete removes it, and an empty reader makes it empty")
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("blobguard: %q: nothing was written: %w", resource, err)
	}
	d, err := g.place(content)
	if err != nil {
		return fmt.Errorf("blobguard: %q: nothing was written: %w", resource, err)
	}
	fixed := func(context.Context, string, record, nonce) (draft, error) { return d, nil }
	if g.codec == (pointer{}) {
		fixed = g.pointed(tok, content, d.size)
	}
	_, err = g.write(ctx, resource, tok, edit{draft: fixed})
	return err
}

// place measures the content and looks where its stamp goes.
func (g *Guard) place(content io.ReadSeeker) (draft, error) {
	size, err := content.Seek(0, io.SeekEnd)
	if err != nil {
		return draft{}, fmt.Errorf("the content cannot be read: %w", err)
	}
	d := draft{content: content, size: size}
	d.layout, err = g.codec.place(content, size)
	return d, err
}

// Delete removes the content of resource, guarded by tok, and keeps its mark: the object stays, with a stamp and no content,
// so that an earlier holder is refused as before. Errors are those of [Guard.Put]. Deleting what is not there is no error,
// and raises the mark. With [Pointer] the data stays until [Guard.Collect].
func (g *Guard) Delete(ctx context.Context, resource string, tok guard.Token) error {
	if err := g.made(); err != nil {
		return err
	}
	return g.outcome(ctx, resource, tok, func() error {
		_, err := g.write(ctx, resource, tok, edit{draft: func(context.Context, string, record, nonce) (draft, error) {
			return g.tombstone()
		}})
		return err
	})
}

func (g *Guard) tombstone() (draft, error) {
	d, err := g.place(readerOf(g.codec.empty()))
	d.deleted = true
	return d, err
}
