package blobguard

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/fencedlock/fencedlock/guard"
)

// ErrBusy is the error of an operation that met other writers as often as Options.MaxRetries allows. Nothing was written.
var ErrBusy = errors.New("blobguard: other writers were faster each time; nothing was written")

// draft is what an operation wants to write over a record.
type draft struct {
	content io.ReadSeeker // nil: none
	size    int64
	layout  layout
	deleted bool
	sealed  bool // the content stays the one that it was
}

// edit is an operation that writes.
type edit struct {
	look  bool // it needs to see what is there, whatever is known
	draft func(ctx context.Context, key string, r record, n nonce) (draft, error)
}

// write is the algorithm: write on condition of the version whose mark was compared, and after any answer but success look
// who did it.
func (g *Guard) write(ctx context.Context, resource string, tok guard.Token, e edit) (r record, err error) {
	if err := guard.Check(resource, tok, 0); err != nil {
		return r, err
	}
	key, err := g.key(resource)
	if err != nil {
		return r, err
	}
	give, err := g.turns.take(ctx, key)
	if err != nil {
		return r, fmt.Errorf("blobguard: %q: nothing was written: %w", resource, err)
	}
	defer give()

	w := &writing{g: g, resource: resource, key: key, tok: tok, nonce: newNonce(), draft: e.draft}
	if k, ok := g.turns.recall(key); ok && !e.look {
		r = record{version: k.version, stamped: true, stamp: stamp{token: k.mark}}
		if tok < k.mark { // refused in any case; look for the error's sake
			if now, err := g.look(ctx, key, 0); err == nil {
				r = now
			}
		}
	} else if r, err = g.look(ctx, key, 0); err != nil {
		return r, w.failed(err)
	}
	for try := 0; ; try++ {
		if err := w.judge(r); err != nil {
			return r, err
		}
		if try > g.opts.MaxRetries {
			return r, w.gaveUp()
		}
		if again, err := w.send(ctx, &r); !again {
			return r, err
		}
		if r, err = w.see(ctx, try); err != nil {
			return r, err
		}
		if n := w.nonce; r.stamped && (r.stamp.nonce == n || r.stamp.content == n) {
			return r, nil // mine, or sealed since by another with all that I wrote
		}
	}
}

// writing is one call of write.
type writing struct {
	g             *Guard
	resource, key string
	tok           guard.Token
	nonce         nonce // the same in every request: one that comes late or twice is told from others
	draft         func(ctx context.Context, key string, r record, n nonce) (draft, error)
	sent          Version // the condition of the last request
	last          error   // of the last request
	lost          error   // an answer that never came: from then on the operation may have been applied
}

// judge compares the mark. It is stale only if nothing was sent that could have been applied before.
func (w *writing) judge(r record) error {
	switch {
	case w.lost == nil:
		return guard.Check(w.resource, w.tok, r.stamp.token)
	case r.stamp.token > w.tok:
		return w.unknown(fmt.Errorf("a mark of %d was seen after it", int64(r.stamp.token)))
	case r.stamp.token == w.tok && r.version != w.sent:
		return w.unknown(errors.New("another write with the same token was seen after it"))
	}
	// The object is as it was, so the request may come again, or late, and only one of them finds its condition; or it has a
	// lower mark, so that mine was never there, and its condition is gone.
	return nil
}

// send writes over what r says. again is true if it is to be found out what became of it.
func (w *writing) send(ctx context.Context, r *record) (again bool, err error) {
	d, err := w.draft(ctx, w.key, *r, w.nonce)
	if err != nil && errors.Is(err, errChanged) {
		w.last = err
		return true, nil
	}
	if err != nil {
		return false, w.failed(err)
	}
	s := stamp{token: w.tok, deleted: d.deleted, nonce: w.nonce, content: w.nonce}
	if d.sealed {
		s.content = r.stamp.content
	}
	body := newSplice(d.content, d.size, d.layout.at, w.g.codec.insert(s.String(), d.layout))
	w.sent = r.version
	var v Version
	if b, ok := w.g.bucket.(StampBucket); ok && w.g.codec == (verbatim{}) {
		v, err = b.PutStamped(ctx, w.key, body, s.String(), r.version)
	} else {
		v, err = w.g.bucket.Put(ctx, w.key, body, r.version)
	}
	if c, ok := d.content.(*remote); ok {
		_ = c.Close() // read to its end, or of no use
	}
	switch {
	case err == nil:
		*r = record{version: v, stamped: true, stamp: s}
		w.g.turns.learn(w.key, known{v, w.tok})
		return false, nil
	case body.err != nil && !errors.Is(body.err, errChanged):
		return false, w.failed(fmt.Errorf("the content cannot be read: %w", body.err))
	case body.err != nil || errors.Is(err, ErrConflict):
	case errors.Is(err, ErrRefused):
		return false, w.failed(err)
	default:
		w.lost = err
	}
	w.last = err
	return true, nil
}

// see looks what has become of the request. An error that is about the reading is tried again.
func (w *writing) see(ctx context.Context, try int) (record, error) {
	for n := 0; ; n++ {
		// The first conflict is most often that of a version remembered too long, and needs no pause.
		if err := ctx.Err(); err != nil || (n+try > 0 || w.lost != nil) && pause(ctx, n+try) != nil {
			return record{}, w.unread(ctx.Err())
		}
		r, err := w.g.look(ctx, w.key, 0)
		switch {
		case err == nil:
			return r, nil
		case certain(err):
			return r, w.failed(err)
		case n == w.g.opts.MaxRetries:
			return r, w.unread(err)
		}
	}
}

func (w *writing) wrap(err error) error { return fmt.Errorf("blobguard: %q: %w", w.resource, err) }

func (w *writing) unknown(why error) error {
	return w.wrap(fmt.Errorf("%w: an answer was lost (%w), and %w; look before you go on", guard.ErrUnknown, w.lost, why))
}

// failed is for an end that says nothing about an earlier request.
func (w *writing) failed(err error) error {
	if w.lost != nil {
		return w.unknown(err)
	}
	return w.wrap(fmt.Errorf("nothing was written: %w", err))
}

// gaveUp is for tries that are used up, after the last of which the write was not there.
func (w *writing) gaveUp() error {
	if w.lost != nil {
		return w.unknown(errors.New("later ones did not come either"))
	}
	return w.wrap(fmt.Errorf("%w (%w)", ErrBusy, w.last))
}

// unread is for a request of which nobody saw what became of it. A conflict alone does not say that it was not applied:
// something on the way to the store may have sent it twice.
func (w *writing) unread(err error) error {
	return w.wrap(fmt.Errorf("%w: the answer was %w, and what has become of the write cannot be read: %w; look before you go on",
		guard.ErrUnknown, w.last, err))
}
