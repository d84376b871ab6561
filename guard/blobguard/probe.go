package blobguard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// cleanUp bounds the removal of the probe's object, which goes on when the caller's context has ended.
const cleanUp = 2 * time.Second

// probe tries whether the bucket keeps what it promises. Stores that do not know a condition ignore it in silence.
func (g *Guard) probe(ctx context.Context) (err error) {
	p := prober{b: g.bucket, key: g.opts.Prefix + "fencedlock-probe-" + newNonce().String()}
	if b, ok := g.bucket.(StampBucket); ok && g.codec == (verbatim{}) {
		p.stamps = b
	}
	if err := p.absent(ctx); err != nil {
		return fmt.Errorf("blobguard: %w", err) // nothing was written
	}
	defer func() {
		if !p.wrote {
			return
		}
		e := discard(ctx, p.b, p.key)
		if e != nil && ctx.Err() != nil {
			c, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
			defer cancel()
			e = discard(c, p.b, p.key)
		}
		switch {
		case e == nil:
		case err == nil:
			err = fmt.Errorf("blobguard: remove the probe at %q: %w", p.key, e)
		default: // the same once more, most likely
			err = fmt.Errorf("%w; the probe may be left at %q", err, p.key)
		}
	}()
	if err := p.run(ctx); err != nil {
		return fmt.Errorf("blobguard: %w", err)
	}
	return nil
}

type prober struct {
	b      Bucket
	stamps StampBucket // nil: not needed
	key    string
	wrote  bool // there may be an object
}

func (p *prober) put(ctx context.Context, content string, expect Version) (v Version, err error) {
	defer func() { p.wrote = p.wrote || !errors.Is(err, ErrRefused) }()
	if p.stamps != nil {
		return p.stamps.PutStamped(ctx, p.key, strings.NewReader(content), "probe", expect)
	}
	return p.b.Put(ctx, p.key, strings.NewReader(content), expect)
}

// breaks is the error of a store that breaks a promise.
func (p *prober) breaks(format string, args ...any) error {
	return fmt.Errorf("the store (%T) cannot be guarded: "+format, append([]any{p.b}, args...)...)
}

// fails is the error of a store that did not do what it was asked.
func fails(what string, err error) error {
	return fmt.Errorf("cannot use the bucket: %s: %w", what, err)
}

// unusable is the error of one that does nothing at all.
func unusable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("cannot use the bucket: %w", err)
	}
	return fmt.Errorf("cannot use the bucket: %w (create it, or check its name, its address and your rights)", err)
}

// refused is a write that must be a conflict.
func (p *prober) refused(ctx context.Context, what, content string, expect Version) error {
	_, err := p.put(ctx, content, expect)
	switch {
	case err == nil:
		return p.breaks("%s was applied: the store, or something on the way to it, ignores conditions, so late writes cannot be refused", what)
	case !errors.Is(err, ErrConflict):
		return fails(what+", where a conflict was due", err)
	}
	return nil
}

// sees is a read that must see the last write.
func (p *prober) sees(ctx context.Context, content string, v Version) error {
	const what = "a read after a write"
	o, err := p.b.Get(ctx, p.key, -int64(len(content)), -1)
	if errors.Is(err, ErrNotExist) {
		return p.breaks("%s finds nothing", what)
	}
	if err != nil {
		return fails(what, err)
	}
	got, err := io.ReadAll(o.Body)
	if err := errors.Join(err, o.Body.Close()); err != nil {
		return fails(what, err)
	}
	if string(got) != content || o.Version != v || p.stamps != nil && o.Stamp != "probe" {
		return p.breaks("%s gives %.40q of version %q; %.40q of version %q was written", what, got, o.Version, content, v)
	}
	return nil
}

// absent is the first step: a read of what is not there.
func (p *prober) absent(ctx context.Context) error {
	o, err := p.b.Get(ctx, p.key, 0, -1)
	switch {
	case err == nil:
		return errors.Join(p.breaks("a read of what is not there finds something"), o.Body.Close())
	case !errors.Is(err, ErrNotExist):
		return unusable(ctx, err)
	}
	return nil
}

// run is what comes after it.
func (p *prober) run(ctx context.Context) error {
	v1, err := p.put(ctx, "one", "")
	if err != nil {
		return unusable(ctx, err)
	}
	if err := p.sees(ctx, "one", v1); err != nil {
		return err
	}
	if err := p.refused(ctx, "a second create", "two", ""); err != nil {
		return err
	}
	v2, err := p.put(ctx, "two", v1)
	switch {
	case err != nil:
		return fails("a write on condition", err)
	case v1 == v2:
		return p.breaks("another content has the same version %q", v1)
	}
	if err := p.sees(ctx, "two", v2); err != nil {
		return err
	}
	if err := p.refused(ctx, "a write on condition of a former version", "three", v1); err != nil {
		return err
	}
	if p.b.UniqueVersions() {
		v3, err := p.put(ctx, "two", v2)
		switch {
		case err != nil:
			return fails("a write on condition", err)
		case v3 == v2:
			return p.breaks("the same content again has the same version %q, and the bucket says that it never has", v2)
		}
		v2 = v3
	}
	if err := p.sees(ctx, "two", v2); err != nil {
		return err
	}
	if err := discard(ctx, p.b, p.key); err != nil {
		return fails("a deletion", err)
	}
	return p.refused(ctx, "a write on condition of a version that was deleted", "three", v2)
}
