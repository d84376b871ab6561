package gcsbucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"cloud.google.com/go/storage"

	"github.com/fencedlock/fencedlock/guard/blobguard"
)

// Get implements [blobguard.Bucket]. An object with Content-Encoding: gzip is an error: Cloud Storage and its client unpack
// it on the way, so that neither the bytes nor a part of them are what is stored. Put writes no such object.
func (b *Bucket) Get(ctx context.Context, key string, offset, length int64) (blobguard.Object, error) {
	if err := b.usable(); err != nil {
		return blobguard.Object{}, err
	}
	for range tries {
		o, again, err := b.get(ctx, key, offset, length)
		if errors.Is(err, storage.ErrObjectNotExist) {
			if missing := b.exists(ctx, key); missing != nil {
				err = missing
			} else {
				err = fmt.Errorf("%w: %w", blobguard.ErrNotExist, err)
			}
		}
		if err != nil {
			return blobguard.Object{}, b.errorf("read of", key, err)
		}
		if !again {
			return o, nil
		}
	}
	return blobguard.Object{}, b.errorf("read of", key, errors.New("it was replaced between two requests each time"))
}

// tries is more often than an object is replaced within one Get.
const tries = 10

// get is one try; again tells that the object was replaced between two requests.
func (b *Bucket) get(ctx context.Context, key string, offset, length int64) (o blobguard.Object, again bool, err error) {
	object := b.client.Bucket(b.name).Object(key)
	if length == 0 {
		o, err = stat(ctx, object)
		return o, false, err
	}
	r, err := object.NewRangeReader(ctx, offset, length)
	if status(err) == http.StatusRequestedRangeNotSatisfiable {
		o, err = stat(ctx, object)
		return o, err == nil && o.Size > 0 && offset < o.Size, err
	}
	if err != nil {
		return o, false, err
	}
	o = blobguard.Object{Body: r, Version: version(r.Attrs.Generation), Size: r.Attrs.Size}
	stamp, found := unwrapStamp(r.Metadata())
	switch {
	case r.Attrs.Generation <= 0:
		err = errNoGeneration
	case r.Attrs.Decompressed || r.Attrs.ContentEncoding == "gzip":
		err = errors.New("it has Content-Encoding: gzip; store it without")
	case found:
		o.Stamp = stamp
	default:
		// The object was not written by Put, or the client reads with JSON, where metadata do not come with the bytes.
		var same blobguard.Object
		same, err = stat(ctx, object.Generation(r.Attrs.Generation))
		o.Stamp = same.Stamp
		again = errors.Is(err, storage.ErrObjectNotExist)
	}
	if err != nil {
		err = errors.Join(err, r.Close())
	}
	if again {
		err = nil
	}
	return o, again, err
}

// stat gives what is known of an object, without its bytes.
func stat(ctx context.Context, object *storage.ObjectHandle) (blobguard.Object, error) {
	attrs, err := object.Attrs(ctx)
	if err != nil {
		return blobguard.Object{}, err
	}
	if attrs.Generation <= 0 {
		return blobguard.Object{}, errNoGeneration
	}
	stamp, _ := unwrapStamp(attrs.Metadata)
	return blobguard.Object{Body: io.NopCloser(strings.NewReader("")), Version: version(attrs.Generation), Size: attrs.Size, Stamp: stamp}, nil
}
