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
//   - any other: nothing was written, which is so with ErrMarkLost and ErrBusy, too, unless they come with guard.ErrUnknown.
//
// A lost answer alone is no ErrUnknown: Put looks at the object, finds its own random number there, and returns nil; or it
// finds the object as it was, and sends the same write again, of which at most one can find its condition. A stale
// answer after a lost one says nothing about the first, so that is ErrUnknown.
//
// After ErrUnknown a request may still be on its way. [Guard.Seal] with the same token ends that: what you read after it is
// final, but for later holders.
//
// content is read several times, from its start, and never held in memory; it must not change until Put returns. It can be as
// large as the bucket takes in one write, on Amazon S3 5 GiB. Where the object's version is known from this Guard's own last
// write or read, Put is one request; else a read of at most 1 KiB comes first. ctx governs the whole call; when it ends while
// a write is under way, the error wraps guard.ErrUnknown.
func (g *Guard) Put(ctx context.Context, resource string, tok guard.Token, content io.ReadSeeker) (err error) {
	defer func() { g.report(ctx, resource, tok, err) }()
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
func (g *Guard) Delete(ctx context.Context, resource string, tok guard.Token) (err error) {
	defer func() { g.report(ctx, resource, tok, err) }()
	_, err = g.write(ctx, resource, tok, edit{draft: func(context.Context, string, record, nonce) (draft, error) {
		return g.tombstone()
	}})
	return err
}

func (g *Guard) tombstone() (draft, error) {
	d, err := g.place(readerOf(g.codec.empty()))
	d.deleted = true
	return d, err
}
