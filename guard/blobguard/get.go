package blobguard

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/fencedlock/fencedlock/guard"
)

// NotExistError says that a resource has no content. It is found with [errors.As], and errors.Is(err, [ErrNotExist]) is true
// for it.
type NotExistError struct {
	Resource string
	Highest  guard.Token // the mark, which outlives a deletion; 0 if there never was one
}

// Error names the resource and the mark.
func (e *NotExistError) Error() string {
	if e.Highest == 0 {
		return fmt.Sprintf("blobguard: %q does not exist, and was never marked", e.Resource)
	}
	return fmt.Sprintf("blobguard: %q does not exist; its mark is %d", e.Resource, int64(e.Highest))
}

// Unwrap returns [ErrNotExist].
func (e *NotExistError) Unwrap() error { return ErrNotExist }

// Value is what [Guard.Get] found.
type Value struct {
	// Body is the content as it was given to Put. The caller closes it. It is all of one write: when the object is replaced
	// while it is read, Body goes on or fails, and never mixes two.
	Body io.ReadCloser

	// Size is the size of the content in bytes.
	Size int64

	// Token is the mark: that of the write, or of a later [Guard.Seal]; 0 if the object was never marked, see Options.Adopt.
	Token guard.Token
}

// getWindow is how much Get reads at once. Content that fits needs no second read.
const getWindow = 64 << 10

// Get opens the content of resource. It takes no token, and sees every write that was acknowledged before. A holder that
// goes on to write calls [Guard.Seal] first, or an earlier holder's write can still land after what it read.
//
// The error is a [*NotExistError] if there is no content; it wraps [ErrMarkLost] if there is none, or one with a lower mark,
// where this Guard has seen a mark before. A stamp that cannot be read is an error. ctx governs the call, and reading Body.
func (g *Guard) Get(ctx context.Context, resource string) (Value, error) {
	if err := g.made(); err != nil {
		return Value{}, err
	}
	v, err := g.get(ctx, resource)
	var none *NotExistError
	if err != nil && !errors.As(err, &none) {
		err = fmt.Errorf("blobguard: Get %q: %w", resource, err)
	}
	return v, err
}

func (g *Guard) get(ctx context.Context, resource string) (Value, error) {
	key, err := g.key(resource)
	if err != nil {
		return Value{}, err
	}
	if err := ctx.Err(); err != nil {
		return Value{}, err
	}
	for try := 0; ; try++ {
		var v Value
		r, err := g.look(ctx, key, getWindow)
		switch {
		case err != nil:
		case r.absent():
			return Value{}, &NotExistError{Resource: resource, Highest: r.stamp.token}
		default:
			v, err = g.open(ctx, key, r)
		}
		if err == nil || !errors.Is(err, errChanged) || try == g.opts.MaxRetries {
			return v, err
		}
		if err := pause(ctx, try); err != nil {
			return Value{}, err
		}
	}
}

// open has the content's first bytes on their way, so that it is found out here when the object is another one by now.
func (g *Guard) open(ctx context.Context, key string, r record) (Value, error) {
	if g.codec == (pointer{}) && r.stamped {
		return g.openData(ctx, key, r)
	}
	v := Value{Body: g.content(ctx, key, r), Size: r.contentSize(), Token: r.stamp.token}
	if c, ok := v.Body.(*remote); ok {
		if err := c.open(); err != nil {
			return Value{}, err
		}
	}
	return v, nil
}
