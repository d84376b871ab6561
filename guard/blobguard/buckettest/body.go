package buckettest

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/fencedlock/fencedlock/guard/blobguard"
)

// checkBody: the body is taken from its start, and one that cannot be read writes nothing.
func checkBody(ctx context.Context, b blobguard.Bucket) error {
	var f findings
	body := strings.NewReader("0123456789")
	if _, err := body.Seek(5, io.SeekStart); err != nil {
		return err
	}
	v, err := b.Put(ctx, "body", body, "")
	if err != nil {
		f.add("Put: %w", err)
	}
	f.holds(ctx, b, "body", "0123456789", v)
	if _, err := b.Put(ctx, "body", &broken{strings.NewReader(strings.Repeat("x", 1<<20))}, v); !errors.Is(err, blobguard.ErrRefused) {
		f.add("Put of a body that fails half-way: %v; want ErrRefused", err)
	}
	f.holds(ctx, b, "body", "0123456789", v)
	return f.err()
}

var errBroken = errors.New("buckettest: a body that fails half-way")

// broken fails in its second half.
type broken struct{ *strings.Reader }

func (r *broken) Read(p []byte) (int, error) {
	if int64(r.Len()) < r.Size()/2 {
		return 0, errBroken
	}
	return r.Reader.Read(p)
}

// WriteTo would go round Read.
func (r *broken) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{r})
}

// checkCancelled: a call whose context has ended does nothing, and says why.
func checkCancelled(ctx context.Context, b blobguard.Bucket) error {
	var f findings
	v := f.put(ctx, b, "cancelled", "one", "")
	ended, cancel := context.WithCancel(ctx)
	cancel()
	want := func(what string, err error) {
		if !errors.Is(err, context.Canceled) {
			f.add("%s with an ended context: %v; want context.Canceled", what, err)
		}
	}
	o, err := b.Get(ended, "cancelled", 0, -1)
	if err == nil {
		_, err = io.ReadAll(o.Body)
		err = errors.Join(err, o.Body.Close())
	}
	want("Get", err)
	_, err = b.Put(ended, "cancelled", strings.NewReader("two"), v)
	want("Put", err)
	err = b.Delete(ended, "cancelled")
	want("Delete", err)
	if !errors.Is(err, blobguard.ErrRefused) {
		f.add("Delete with an ended context: %v; want ErrRefused, as nothing is removed", err)
	}
	for _, err = range b.List(ended, "") {
		if err != nil {
			break
		}
	}
	want("List", err)
	f.holds(ctx, b, "cancelled", "one", v)
	return f.err()
}
