// Package azbucket makes a container of Azure Blob Storage a [blobguard.Bucket], over your own client.
//
//	g, err := blobguard.New(ctx, azbucket.New(client), nil)
//
// It rests on Put Blob with If-None-Match: * and If-Match, which Azure checks in one step with the write,
// https://learn.microsoft.com/rest/api/storageservices/specifying-conditional-headers-for-blob-service-operations, and on
// its strong consistency: the client speaks to the primary endpoint, since a secondary lags behind. The version of an object
// is its ETag, which Azure makes anew with every write, also one of the same bytes: UniqueVersions is true, and
// [blobguard.Verbatim] can be used.
//
// Rights that it needs: to read, write, delete and list blobs, as the role Storage Blob Data Contributor has. No lifecycle
// rule may delete guarded objects: their marks would go with them. A blob with a lease refuses writes to everybody here.
//
// Tested on Azurite 3.37.0, not on Azure itself; the tests say what that server cannot show. Accounts with a hierarchical
// namespace, where a part of a key is a folder, are not tested at all.
package azbucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/fencedlock/fencedlock/guard/blobguard"
)

// MaxSize is the largest object in bytes that one Put Blob takes, 5000 MiB, stamp included. Put refuses larger bodies: those
// would be uploaded in blocks, by many requests.
const MaxSize = 5000 << 20

// Bucket is one container. It is safe for concurrent use. [New] makes one; the zero Bucket is of no use.
type Bucket struct {
	client *container.Client
}

var _ blobguard.StampBucket = (*Bucket)(nil)

// New returns the container of that client as a bucket. It does no I/O. The client's own retries are used for reads
// and lists, and are switched off for Put, PutStamped and Delete.
//
// A nil client is the error of each call.
func New(client *container.Client) *Bucket { return &Bucket{client: client} }

// UniqueVersions implements [blobguard.Bucket]: true, each write makes a new ETag.
func (b *Bucket) UniqueVersions() bool { return true }

func (b *Bucket) usable() error {
	if b == nil || b.client == nil {
		return errors.New("azbucket: no client; make a Bucket with New")
	}
	return nil
}

func (b *Bucket) errorf(what, key string, err error) error {
	return fmt.Errorf("azbucket: %s %q: %w", what, key, err)
}

// Put implements [blobguard.Bucket]. A body of more than [MaxSize] bytes gives an error that wraps blobguard.ErrRefused.
func (b *Bucket) Put(ctx context.Context, key string, body io.ReadSeeker, expect blobguard.Version) (blobguard.Version, error) {
	return b.put(ctx, key, body, nil, expect)
}

// PutStamped implements [blobguard.StampBucket]. The stamp is in the blob's metadata, under the name fencedlock.
func (b *Bucket) PutStamped(ctx context.Context, key string, body io.ReadSeeker, stamp string, expect blobguard.Version) (blobguard.Version, error) {
	stamp = wrapStamp(stamp)
	return b.put(ctx, key, body, map[string]*string{stampName: &stamp}, expect)
}

func (b *Bucket) put(ctx context.Context, key string, body io.ReadSeeker, metadata map[string]*string, expect blobguard.Version) (blobguard.Version, error) {
	if err := b.usable(); err != nil {
		return "", fmt.Errorf("%w: %w", blobguard.ErrRefused, err)
	}
	only, err := condition(expect)
	if err == nil {
		err = ctx.Err()
	}
	var whole *sent
	if err == nil {
		whole, err = newSent(body)
	}
	if err == nil && whole.size > MaxSize {
		err = fmt.Errorf("%d bytes, stamp included; one Put Blob takes %d, and an upload in blocks is many requests: split the data, "+
			"or keep it in objects of their own and guard a small one that names them", whole.size, int64(MaxSize))
	}
	if err != nil {
		return "", b.errorf("Put Blob", key, fmt.Errorf("%w: %w", blobguard.ErrRefused, err))
	}
	out, err := b.client.NewBlockBlobClient(key).Upload(once(ctx), whole, &blockblob.UploadOptions{
		AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: only},
		Metadata:         metadata,
	})
	complete, failed := whole.end()
	if err != nil {
		return "", b.errorf("Put Blob", key, classify(brief(err), complete, failed))
	}
	v, err := version(out.ETag)
	if err != nil {
		return "", b.errorf("Put Blob", key, err)
	}
	return v, nil
}

// once switches the SDK's retries off: the answer to a second request says nothing about the first, which can come late.
func once(ctx context.Context) context.Context {
	return policy.WithRetryOptions(ctx, policy.RetryOptions{MaxRetries: -1})
}

// condition is the precondition for a version.
func condition(expect blobguard.Version) (*blob.ModifiedAccessConditions, error) {
	tag := azcore.ETag(expect)
	if expect == "" {
		tag = azcore.ETagAny
		return &blob.ModifiedAccessConditions{IfNoneMatch: &tag}, nil
	}
	if _, err := version(&tag); err != nil { // * would be any version
		return nil, err
	}
	return &blob.ModifiedAccessConditions{IfMatch: &tag}, nil
}

// version takes one ETag in quotes.
func version(tag *azcore.ETag) (blobguard.Version, error) {
	if tag == nil {
		return "", errors.New("the answer has no ETag")
	}
	v := string(*tag)
	if len(v) < 3 || v[0] != '"' || strings.IndexByte(v[1:], '"') != len(v)-2 {
		return "", fmt.Errorf("version %q is no ETag of a blob", v)
	}
	return blobguard.Version(v), nil
}

// Delete implements [blobguard.Bucket]. A blob with snapshots is left alone, with Azure's error. With versioning or soft
// delete Azure keeps what was deleted, out of sight.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	err := b.usable()
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", blobguard.ErrRefused, err)
	}
	if _, err := b.client.NewBlobClient(key).Delete(once(ctx), nil); err != nil && !bloberror.HasCode(err, bloberror.BlobNotFound) {
		return b.errorf("Delete Blob", key, classify(brief(err), true, nil))
	}
	return nil
}

// List implements [blobguard.Bucket].
func (b *Bucket) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := b.usable(); err != nil {
			yield("", err)
			return
		}
		for pages := b.client.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Prefix: &prefix}); pages.More(); {
			page, err := pages.NextPage(ctx)
			if err != nil {
				yield("", b.errorf("List Blobs", prefix, brief(err)))
				return
			}
			for _, item := range page.Segment.BlobItems {
				if !yield(*item.Name, nil) {
					return
				}
			}
		}
	}
}

const stampName = "fencedlock"

// wrapStamp puts a frame around a stamp, whose outer blanks a header would lose.
func wrapStamp(stamp string) string { return "[" + stamp + "]" }

// unwrapStamp gives what has no frame as it is, and never as no stamp: somebody has changed it.
func unwrapStamp(metadata map[string]*string) string {
	for name, value := range metadata {
		if !strings.EqualFold(name, stampName) || value == nil { // a header's name comes in capitals
			continue
		}
		if v := *value; len(v) >= 2 && v[0] == '[' && v[len(v)-1] == ']' {
			return v[1 : len(v)-1]
		}
		return "without its frame: " + *value
	}
	return ""
}
