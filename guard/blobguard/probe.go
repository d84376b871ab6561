package blobguard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// cleanUp bounds the removal of the probe's objects, which goes on when the caller's context has ended.
const cleanUp = 10 * time.Second

// probe tries whether the bucket keeps what it promises. Stores that do not know a condition ignore it in silence.
func (g *Guard) probe(ctx context.Context) (err error) {
	p := prober{b: g.bucket, key: g.opts.Prefix + "fencedlock-probe-" + newNonce().String()}
	if b, ok := g.bucket.(StampBucket); ok && g.codec == (verbatim{}) {
		p.stamps = b
	}
	defer func() {
		c, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
		defer cancel()
		if e := p.b.Delete(c, p.key); e != nil {
			err = errors.Join(err, fmt.Errorf("blobguard: remove the probe at %q: %w", p.key, e))
		}
	}()
	if err := p.run(ctx); err != nil {
		return fmt.Errorf("blobguard: the store (%T) cannot be guarded, or cannot be tried: %w", g.bucket, err)
	}
	return nil
}

type prober struct {
	b      Bucket
	stamps StampBucket // nil: not needed
	key    string
}

func (p *prober) put(ctx context.Context, content string, expect Version) (Version, error) {
	if p.stamps != nil {
		return p.stamps.PutStamped(ctx, p.key, strings.NewReader(content), "probe", expect)
	}
	return p.b.Put(ctx, p.key, strings.NewReader(content), expect)
}

// refused is a write that must be a conflict.
func (p *prober) refused(ctx context.Context, what, content string, expect Version) error {
	_, err := p.put(ctx, content, expect)
	switch {
	case err == nil:
		return fmt.Errorf("%s was applied: the store, or something on the way to it, ignores conditions, so late writes cannot be refused", what)
	case !errors.Is(err, ErrConflict):
		return fmt.Errorf("%s: %w; a conflict was due", what, err)
	}
	return nil
}

// sees is a read that must see the last write.
func (p *prober) sees(ctx context.Context, content string, v Version) error {
	o, err := p.b.Get(ctx, p.key, -int64(len(content)), -1)
	if err != nil {
		return fmt.Errorf("a read after a write: %w", err)
	}
	got, err := io.ReadAll(o.Body)
	if err := errors.Join(err, o.Body.Close()); err != nil {
		return fmt.Errorf("a read after a write: %w", err)
	}
	if string(got) != content || o.Version != v || p.stamps != nil && o.Stamp != "probe" {
		return fmt.Errorf("a read after a write gives %.40q of version %q; %.40q of version %q was written", got, o.Version, content, v)
	}
	return nil
}

func (p *prober) run(ctx context.Context) error {
	if o, err := p.b.Get(ctx, p.key, 0, -1); err == nil {
		return errors.Join(errors.New("a read of what is not there finds something"), o.Body.Close())
	} else if !errors.Is(err, ErrNotExist) {
		return fmt.Errorf("a read of what is not there: %w; ErrNotExist was due", err)
	}
	v1, err := p.put(ctx, "one", "")
	if err != nil {
		return fmt.Errorf("a create: %w", err)
	}
	if err := errors.Join(p.sees(ctx, "one", v1), p.refused(ctx, "a second create", "two", "")); err != nil {
		return err
	}
	v2, err := p.put(ctx, "two", v1)
	switch {
	case err != nil:
		return fmt.Errorf("a write on condition: %w", err)
	case v1 == v2:
		return fmt.Errorf("another content has the same version %q", v1)
	}
	if err := errors.Join(p.sees(ctx, "two", v2), p.refused(ctx, "a write on condition of a former version", "three", v1)); err != nil {
		return err
	}
	if p.b.UniqueVersions() {
		v3, err := p.put(ctx, "two", v2)
		switch {
		case err != nil:
			return fmt.Errorf("a write on condition: %w", err)
		case v3 == v2:
			return fmt.Errorf("the same content again has the same version %q, and the bucket says that it never has", v2)
		}
		v2 = v3
	}
	if err := p.sees(ctx, "two", v2); err != nil {
		return err
	}
	if err := p.b.Delete(ctx, p.key); err != nil {
		return fmt.Errorf("a deletion: %w", err)
	}
	return p.refused(ctx, "a write on condition of a version that was deleted", "three", v2)
}
