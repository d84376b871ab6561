// Package gcsbucket makes a bucket of Google Cloud Storage a [blobguard.Bucket], over your own client.
//
//	g, err := blobguard.New(ctx, gcsbucket.New(client, "ledger"), nil)
//
// It rests on uploads on condition of the object's generation, https://cloud.google.com/storage/docs/request-preconditions,
// and on the strong consistency of Cloud Storage, https://cloud.google.com/storage/docs/consistency. The version of an object
// is its generation, which every write makes anew, also one of the same bytes: UniqueVersions is true, and
// [blobguard.Verbatim] can be used.
//
// Objects are written as application/octet-stream and with Cache-Control: no-store, since Cloud Storage serves publicly
// readable objects from caches for an hour otherwise, and a mark from a cache is an old one. Cloud Storage takes about one
// write a second of the same object, https://cloud.google.com/storage/quotas, and answers 429 above.
//
// Rights that it needs: storage.objects.get, create, list, and delete, which Cloud Storage asks for when an object is
// overwritten. No lifecycle rule may delete guarded objects: their marks would go with them.
//
// The client is one of storage.NewClient, which speaks HTTP; one of storage.NewGRPCClient is not supported. Tested on
// fake-gcs-server 1.56.1, not on Cloud Storage itself; the tests say what that server cannot show.
package gcsbucket

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"strconv"
	"strings"

	"cloud.google.com/go/storage"
	"google.golang.org/api/iterator"

	"github.com/fencedlock/fencedlock/guard/blobguard"
)

// MaxSize is the largest object in bytes that Cloud Storage keeps, 5 TiB, stamp included.
const MaxSize = 5 << 40

// Bucket is one bucket. It is safe for concurrent use. [New] makes one; the zero Bucket is of no use.
type Bucket struct {
	client *storage.Client
	name   string
}

var _ blobguard.StampBucket = (*Bucket)(nil)

// New returns the bucket of that name. It does no I/O. The client's own retries are used for reads and lists, and are
// switched off for Put, PutStamped and Delete. As the library has it, those go on until the context ends: give it a deadline.
//
// A nil client and an empty name are the error of each call.
func New(client *storage.Client, bucket string) *Bucket { return &Bucket{client: client, name: bucket} }

// UniqueVersions implements [blobguard.Bucket]: true, each write makes a new generation.
func (b *Bucket) UniqueVersions() bool { return true }

func (b *Bucket) usable() error {
	if b == nil || b.client == nil || b.name == "" {
		return errors.New("gcsbucket: no client, or no name of a bucket; make one with New")
	}
	return nil
}

func (b *Bucket) errorf(what, key string, err error) error {
	return fmt.Errorf("gcsbucket: %s %q in %q: %w", what, key, b.name, err)
}

// Put implements [blobguard.Bucket]. It reads body twice, first for a checksum that Cloud Storage compares before it
// writes, and sends it in one request, however large.
func (b *Bucket) Put(ctx context.Context, key string, body io.ReadSeeker, expect blobguard.Version) (blobguard.Version, error) {
	return b.put(ctx, key, body, "", expect)
}

// PutStamped implements [blobguard.StampBucket]. The stamp is in the object's metadata, under the name fencedlock.
func (b *Bucket) PutStamped(ctx context.Context, key string, body io.ReadSeeker, stamp string, expect blobguard.Version) (blobguard.Version, error) {
	return b.put(ctx, key, body, stamp, expect)
}

func (b *Bucket) put(ctx context.Context, key string, body io.ReadSeeker, stamp string, expect blobguard.Version) (blobguard.Version, error) {
	if err := b.usable(); err != nil {
		return "", fmt.Errorf("%w: %w", blobguard.ErrRefused, err)
	}
	only, err := condition(expect)
	if err == nil {
		err = ctx.Err()
	}
	var sum uint32
	var size int64
	if err == nil {
		sum, size, err = checksum(ctx, body)
	}
	if err != nil {
		return "", b.errorf("upload of", key, fmt.Errorf("%w: %w", blobguard.ErrRefused, err))
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The answer to a second request says nothing about the first. Without a buffer the client has nothing to send again
	// today; the policy says that it must not.
	o := b.client.Bucket(b.name).Object(key).If(only).Retryer(storage.WithPolicy(storage.RetryNever))
	w := o.NewWriter(ctx)
	// One request, streamed. An upload in chunks has a request that opens it, and others, and its own retries of each.
	w.ChunkSize = 0
	w.ContentType = "application/octet-stream"
	w.CacheControl = "no-store"
	w.CRC32C, w.SendCRC32C = sum, true
	w.Metadata = map[string]string{stampName: wrapStamp(stamp)}
	sent := &source{r: body, left: size}
	if _, err = io.CopyN(w, sent, size); err == nil {
		err = classify(w.Close())
	} else {
		// Not Close, which would send the end of the upload after a part of it.
		cancel()
		err = sent.classify(err)
	}
	if err != nil {
		return "", b.errorf("upload of", key, err)
	}
	if w.Attrs().Generation <= 0 {
		return "", b.errorf("upload of", key, errNoGeneration)
	}
	return version(w.Attrs().Generation), nil
}

var errNoGeneration = errors.New("the answer has no generation")

// condition is the precondition for a version.
func condition(expect blobguard.Version) (storage.Conditions, error) {
	if expect == "" {
		return storage.Conditions{DoesNotExist: true}, nil
	}
	g, err := strconv.ParseInt(string(expect), 10, 64)
	if err != nil || g <= 0 || version(g) != expect { // 0 would mean that there is no object
		return storage.Conditions{}, fmt.Errorf("version %q is no generation of an object", expect)
	}
	return storage.Conditions{GenerationMatch: g}, nil
}

func version(generation int64) blobguard.Version {
	return blobguard.Version(strconv.FormatInt(generation, 10))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum reads body to its end and seeks back to its start. With the sum in the request, neither a part of the body
// nor one that changes under our hands is taken for the whole.
func checksum(ctx context.Context, body io.ReadSeeker) (sum uint32, size int64, err error) {
	if size, err = body.Seek(0, io.SeekEnd); err != nil {
		return 0, 0, err
	}
	if size > MaxSize {
		return 0, 0, fmt.Errorf("%d bytes, stamp included; Cloud Storage takes %d: split the data, or keep it in objects of their own "+
			"and guard a small one that names them", size, int64(MaxSize))
	}
	if _, err = body.Seek(0, io.SeekStart); err != nil {
		return 0, 0, err
	}
	h := crc32.New(castagnoli)
	if _, err = io.CopyN(h, body, size); err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		_, err = body.Seek(0, io.SeekStart)
	}
	if err == nil {
		err = ctx.Err()
	}
	return h.Sum32(), size, err
}

// Delete implements [blobguard.Bucket]. A bucket with versioning or soft delete keeps what was deleted, out of sight.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	err := b.usable()
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", blobguard.ErrRefused, err)
	}
	err = b.client.Bucket(b.name).Object(key).Retryer(storage.WithPolicy(storage.RetryNever)).Delete(ctx)
	if errors.Is(err, storage.ErrObjectNotExist) {
		if err = b.exists(ctx, key); err != nil {
			err = fmt.Errorf("%w: %w", blobguard.ErrRefused, err) // the deletion has found nothing
		}
	} else {
		err = classify(err)
	}
	if err != nil {
		return b.errorf("deletion of", key, err)
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
		for objects := b.objects(ctx, prefix); ; {
			o, err := objects.Next()
			if errors.Is(err, iterator.Done) {
				return
			}
			if err != nil {
				yield("", b.errorf("list of", prefix, err))
				return
			}
			if !yield(o.Name, nil) {
				return
			}
		}
	}
}

// objects lists names only.
func (b *Bucket) objects(ctx context.Context, prefix string) *storage.ObjectIterator {
	q := &storage.Query{Prefix: prefix, Projection: storage.ProjectionNoACL}
	_ = q.SetAttrSelection([]string{"Name"}) // fails for names that it does not know
	return b.client.Bucket(b.name).Objects(ctx, q)
}

// exists returns an error if the bucket itself is missing, which the answer to a read or a deletion does not tell. It
// needs no right of its own: without the one to list, Cloud Storage answers 403 instead of 404 for what is not there.
func (b *Bucket) exists(ctx context.Context, key string) error {
	objects := b.objects(ctx, key)
	objects.PageInfo().MaxSize = 1
	if _, err := objects.Next(); err != nil && !errors.Is(err, iterator.Done) {
		return err
	}
	return nil
}

const stampName = "fencedlock"

// wrapStamp puts a frame around a stamp, whose outer blanks a header would lose. The empty frame, of objects without a
// stamp, tells them from those whose metadata the answer to a read does not have.
func wrapStamp(stamp string) string { return "[" + stamp + "]" }

// unwrapStamp gives what has no frame as it is, and never as no stamp: somebody has changed it.
func unwrapStamp(metadata map[string]string) (stamp string, found bool) {
	for name, value := range metadata {
		if !strings.EqualFold(name, stampName) { // a header's name comes in capitals
			continue
		}
		if len(value) < 2 || value[0] != '[' || value[len(value)-1] != ']' {
			return "without its frame: " + value, true
		}
		return value[1 : len(value)-1], true
	}
	return "", false
}
