package azbucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"

	"github.com/fencedlock/fencedlock/guard/blobguard"
)

// Get implements [blobguard.Bucket]. For the last bytes of a blob it asks for the size first, as Azure has no range that
// counts from the end. It gives the bytes as they are stored, also of blobs with Content-Encoding: gzip.
func (b *Bucket) Get(ctx context.Context, key string, offset, length int64) (blobguard.Object, error) {
	if err := b.usable(); err != nil {
		return blobguard.Object{}, err
	}
	// Without it Go would unpack what has Content-Encoding: gzip.
	ctx = policy.WithHTTPHeader(ctx, http.Header{"Accept-Encoding": {"identity"}})
	client := b.client.NewBlobClient(key)
	for range tries {
		o, again, err := get(ctx, client, offset, length)
		err = brief(err)
		if bloberror.HasCode(err, bloberror.BlobNotFound) {
			err = fmt.Errorf("%w: %w", blobguard.ErrNotExist, err)
		}
		if err != nil {
			return blobguard.Object{}, b.errorf("Get Blob", key, err)
		}
		if !again {
			return o, nil
		}
	}
	return blobguard.Object{}, b.errorf("Get Blob", key, errors.New("it was replaced between two requests each time"))
}

// tries is more often than an object is replaced within one Get.
const tries = 10

// get is one try; again tells that the blob was replaced between two requests.
func get(ctx context.Context, client *blob.Client, offset, length int64) (o blobguard.Object, again bool, err error) {
	if length == 0 {
		o, err = stat(ctx, client)
		return o, false, err
	}
	var only *blob.AccessConditions
	if offset < 0 {
		if o, err = stat(ctx, client); err != nil || o.Size == 0 {
			return o, false, err
		}
		offset = max(o.Size+offset, 0)
		tag := azcore.ETag(o.Version)
		only = &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: &tag}}
	}
	r, err := client.DownloadStream(ctx, &blob.DownloadStreamOptions{
		Range:            blob.HTTPRange{Offset: offset, Count: max(length, 0)}, // a count of 0 is all up to the end
		AccessConditions: only,
	})
	switch {
	case bloberror.HasCode(err, bloberror.InvalidRange):
		o, err = stat(ctx, client)
		return o, err == nil && offset < o.Size, err
	case bloberror.HasCode(err, bloberror.ConditionNotMet):
		return o, true, nil
	case err != nil:
		return o, false, err
	}
	o = blobguard.Object{Body: r.Body, Stamp: unwrapStamp(r.Metadata)}
	if o.Version, err = version(r.ETag); err == nil {
		o.Size, err = wholeSize(r.ContentRange, r.ContentLength)
	}
	if err != nil {
		return o, false, errors.Join(err, r.Body.Close())
	}
	return o, false, nil
}

// wholeSize reads the size of the blob from "bytes 0-9/100", or takes the length of an answer that has no such range.
func wholeSize(contentRange *string, length *int64) (int64, error) {
	if contentRange != nil {
		_, total, _ := strings.Cut(*contentRange, "/")
		if n, err := strconv.ParseInt(total, 10, 64); err == nil && n >= 0 {
			return n, nil
		}
		return 0, fmt.Errorf("the answer's Content-Range is %q", *contentRange)
	}
	if length == nil || *length < 0 {
		return 0, errors.New("the answer has no Content-Length")
	}
	return *length, nil
}

// stat gives what is known of a blob, without its bytes.
func stat(ctx context.Context, client *blob.Client) (blobguard.Object, error) {
	p, err := client.GetProperties(ctx, nil)
	if err != nil {
		return blobguard.Object{}, err
	}
	v, err := version(p.ETag)
	if err != nil {
		return blobguard.Object{}, err
	}
	size, err := wholeSize(nil, p.ContentLength)
	return blobguard.Object{Body: io.NopCloser(strings.NewReader("")), Version: v, Size: size, Stamp: unwrapStamp(p.Metadata)}, err
}
