package blobguard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/fencedlock/fencedlock/guard"
)

// ErrBusy is the error of an operation that met other writers as often as Options.MaxRetries allows. Nothing was written.
var ErrBusy = errors.New("blobguard: other writers were faster each time; nothing was written")

// recent is how long a Put over what this guard has written or read goes without a look. A conflict then tells what became of the
// request only if the object still names the one of then, and in a long pause many others can come.
const recent = 5 * time.Second

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
	k, knows := g.turns.recall(key)
	if knows && !e.look && tok >= k.mark && time.Since(k.at) < recent {
		r = k.record()
	} else if r, err = g.look(ctx, key, 0); err != nil {
		if !knows || e.look || tok >= k.mark {
			return r, w.failed(err)
		}
		r = k.record() // refused in any case; the look was for the error's sake
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
		if w.applied(r) {
			return r, nil
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
	last          error // of the last request
	asked         condition
	doubt         error // what a request with that condition ended with, which may have been applied; nil: none was sent
}

// condition is what a request was sent on.
type condition struct {
	version Version
	id      nonce // of the object with that version
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
	s := stamp{token: w.tok, codec: w.g.codec.name(), deleted: d.deleted, nonce: w.nonce, content: w.nonce, before: r.stamp.before, past: r.stamp.past.with(r.id())}
	if d.sealed {
		s.content = r.stamp.content
	}
	if w.tok > r.stamp.token {
		s.before = r.id()
	}
	body := newSplice(d.content, d.size, d.layout.at, w.g.codec.insert(s.String(), d.layout))
	w.asked = condition{r.version, r.id()}
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
		w.g.turns.learn(w.key, r.known())
		return false, nil
	case errors.Is(err, ErrRefused) && body.err == nil:
		return false, w.failed(err)
	case errors.Is(err, ErrRefused) && !errors.Is(body.err, errChanged):
		return false, w.failed(fmt.Errorf("the content cannot be read: %w", body.err))
	case errors.Is(err, ErrRefused):
	default:
		// A conflict, too: something on the way may have sent the request twice, and this is the answer to the second.
		w.doubt = err
	}
	w.last = err
	return true, nil
}

// see looks what has become of the request. An error that is about the reading is tried again.
func (w *writing) see(ctx context.Context, try int) (record, error) {
	for n := 0; ; n++ {
		// The first conflict is most often that of a version remembered too long, and needs no pause.
		if err := ctx.Err(); err != nil || (n+try > 0 || !errors.Is(w.last, ErrConflict)) && pause(ctx, n+try) != nil {
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
