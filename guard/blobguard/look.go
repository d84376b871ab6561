package blobguard

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/fencedlock/fencedlock/guard"
)

// ErrMarkLost is the error of an operation that finds no mark, or a lower one, where this Guard has seen one before: the
// object was deleted, overwritten by a program without the guard, restored from a copy, or purged by another Guard. Whether
// later holders have written is not known any more, so the Guard refuses to go on with this resource. Once it is sure that no
// former holder writes any more, [Guard.Purge] or a new Guard start it anew.
//
// A Guard remembers the marks of the 4,096 resources that it used last, and those for as long as it lives: so that a mark
// was lost is not always found out.
var ErrMarkLost = errors.New("blobguard: the mark was lost")

// errUnstamped is inside the error of an object without a stamp.
var errUnstamped = errors.New("the object has no stamp")

// record is what is at a key.
type record struct {
	version Version // "": no object
	stamped bool
	stamp   stamp // zero if not stamped
	layout  layout
	size    int64  // of the object
	window  []byte // what was read of it
	whole   bool   // the window is all of it
}

// id tells this object from those before and after it at the key; it is zero for none.
func (r record) id() nonce {
	switch {
	case r.stamped:
		return r.stamp.nonce
	case r.version == "":
		return nonce{}
	}
	sum := sha256.Sum256([]byte(r.version))
	return nonce(sum[:len(nonce{})])
}

func (r record) known() known {
	return known{r.version, r.stamp.token, r.id(), r.stamp.before, r.stamp.past, time.Now()}
}

// record is what a known object is for a write over it.
func (k known) record() record {
	return record{version: k.version, stamped: true, stamp: stamp{token: k.mark, nonce: k.id, before: k.before, past: k.past}}
}

// absent tells whether there is no content.
func (r record) absent() bool { return r.version == "" || r.stamped && r.stamp.deleted }

// contentSize is without the stamp.
func (r record) contentSize() int64 { return r.size - r.layout.length }

// read reads the stamp at key, and at least atLeast bytes around it.
func (g *Guard) read(ctx context.Context, key string, atLeast int64) (record, error) {
	offset, length := g.codec.window()
	if offset < 0 {
		offset = min(offset, -atLeast)
	} else {
		length = max(length, atLeast)
	}
	o, err := g.bucket.Get(ctx, key, offset, length)
	if errors.Is(err, ErrNotExist) {
		return record{}, nil
	}
	if err != nil {
		return record{}, err
	}
	want := min(max(-offset, length), o.Size)
	w := make([]byte, want)
	_, err = io.ReadFull(o.Body, w)
	if err := errors.Join(err, o.Body.Close()); err != nil {
		return record{}, err
	}
	r := record{version: o.Version, size: o.Size, window: w, whole: want == o.Size}
	text := o.Stamp
	if g.codec != (verbatim{}) {
		if text != "" { // beside the content: only one codec has it there
			return record{}, other(verbatim{}.name(), g.codec)
		}
		if text, r.layout, err = g.codec.find(w, o.Size); err != nil {
			return record{}, err
		}
	}
	if text == "" {
		return r, nil
	}
	if r.stamp, err = parseStamp(text); err == nil && r.stamp.codec != g.codec.name() {
		err = other(r.stamp.codec, g.codec)
	}
	r.stamped = err == nil
	return r, err
}

// look reads the stamp at key, and compares it with what is known of it. It begins anew when the object is replaced while it
// is looked through, see Options.Adopt.
func (g *Guard) look(ctx context.Context, key string, atLeast int64) (record, error) {
	for try := 0; ; try++ {
		r, err := g.lookOnce(ctx, key, atLeast)
		if !errors.Is(err, errChanged) {
			return r, err
		}
		if try == g.opts.MaxRetries {
			return r, fmt.Errorf("%w (%v)", ErrBusy, err)
		}
		if ended := pause(ctx, try); ended != nil {
			return r, ended
		}
	}
}

func (g *Guard) lookOnce(ctx context.Context, key string, atLeast int64) (record, error) {
	v := g.turns.visit(key)
	defer v.leave()
	r, err := g.read(ctx, key, atLeast)
	if err != nil {
		return r, err
	}
	if v.knew && (r.version == "" || r.stamp.token < v.before.mark) && !v.purged() {
		return r, fmt.Errorf("%w: it was %d, and now it is %d; the object was deleted, restored or written without the guard",
			ErrMarkLost, int64(v.before.mark), int64(r.stamp.token))
	}
	if r.version == "" {
		return r, nil
	}
	if !r.stamped {
		if err := g.adopt(ctx, key, r); err != nil {
			return r, err
		}
	}
	v.learn(r.known())
	return r, nil
}

// adopt tells whether an object without a stamp may be taken for one that was never marked.
func (g *Guard) adopt(ctx context.Context, key string, r record) error {
	if !g.opts.Adopt {
		return fmt.Errorf("%w that %s finds; it was written without the guard, or with another codec; "+
			"Options.Adopt takes it over as one that was never marked", errUnstamped, g.codec)
	}
	content := g.content(ctx, key, r)
	defer content.Close()
	// A stamp that was moved, or is another codec's, is a mark that cannot be read, and not none.
	buf := make([]byte, 32<<10)
	n := 0
	for {
		m, err := content.Read(buf[n:])
		n += m
		if i := stampLike.FindIndex(buf[:n]); i != nil {
			return fmt.Errorf("%w: the object holds %.120q in another place than %s writes it", errDamaged, buf[i[0]:n], g.codec)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if n > stampLikeMax {
			n = copy(buf, buf[n-stampLikeMax:n])
		}
	}
}

// content is an object's content without the stamp, from memory if it is there.
func (g *Guard) content(ctx context.Context, key string, r record) io.ReadSeekCloser {
	if r.whole {
		l := r.layout
		c := append(bytes.Clone(r.window[:l.at]), r.window[l.at+l.length:]...)
		return memory{bytes.NewReader(c)}
	}
	return &remote{ctx: ctx, bucket: g.bucket, key: key, version: r.version, size: r.contentSize(), layout: r.layout}
}

type memory struct{ *bytes.Reader }

func (memory) Close() error { return nil }

// certain tells an error about what was read from one about the reading.
func certain(err error) bool {
	return errors.Is(err, ErrMarkLost) || errors.Is(err, errDamaged) || errors.Is(err, errUnstamped) || errors.Is(err, errCodec)
}

// Highest implements [guard.Sealer]. It reads the stamp. Where this Guard has seen a higher mark before, the error wraps
// [ErrMarkLost]; a stamp that cannot be read is an error, and so is an object without one, unless Options.Adopt is set.
func (g *Guard) Highest(ctx context.Context, resource string) (guard.Token, error) {
	if err := g.made(); err != nil {
		return 0, err
	}
	key, err := g.key(resource)
	if err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	r, err := g.look(ctx, key, 0)
	if err != nil {
		return 0, fmt.Errorf("blobguard: mark of %q: %w", resource, err)
	}
	return r.stamp.token, nil
}
