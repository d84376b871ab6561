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
	for {
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
}

// get is one try; again tells that the object was replaced between two requests.
func (b *Bucket) get(ctx context.Context, key string, offset, length int64) (o blobguard.Object, again bool, err error) {
	object := b.client.Bucket(b.name).Object(key)
	if length == 0 {
		offset = 0
	}
	r, err := object.NewRangeReader(ctx, offset, length)
	if status(err) == http.StatusRequestedRangeNotSatisfiable {
		attrs, err := object.Attrs(ctx)
		if err != nil {
			return blobguard.Object{}, false, err
		}
		stamp, _ := unwrapStamp(attrs.Metadata)
		empty := blobguard.Object{Body: io.NopCloser(strings.NewReader("")), Version: version(attrs.Generation), Size: attrs.Size, Stamp: stamp}
		return empty, offset < attrs.Size && attrs.Size > 0, nil
	}
	if err != nil {
		return blobguard.Object{}, false, err
	}
	if r.Attrs.Generation <= 0 {
		return blobguard.Object{}, false, errors.Join(errNoGeneration, r.Close())
	}
	if r.Attrs.Decompressed || r.Attrs.ContentEncoding == "gzip" {
		return blobguard.Object{}, false, errors.Join(errors.New("it has Content-Encoding: gzip; store it without"), r.Close())
	}
	stamp, found := unwrapStamp(r.Metadata())
	if !found {
		// The object was not written by Put, or the client reads with JSON, where metadata do not come with the bytes.
		attrs, err := object.Generation(r.Attrs.Generation).Attrs(ctx)
		if errors.Is(err, storage.ErrObjectNotExist) {
			return blobguard.Object{}, true, r.Close()
		}
		if err != nil {
			return blobguard.Object{}, false, errors.Join(err, r.Close())
		}
		stamp, _ = unwrapStamp(attrs.Metadata)
	}
	return blobguard.Object{Body: r, Version: version(r.Attrs.Generation), Size: r.Attrs.Size, Stamp: stamp}, false, nil
}
