// Package s3bucket makes a bucket of Amazon S3, or of a store that speaks its protocol, a [blobguard.Bucket], over your own
// client of the AWS SDK for Go v2.
//
//	g, err := blobguard.New(ctx, s3bucket.New(client, "ledger"), nil)
//
// It rests on conditional writes: PutObject with If-None-Match: * and If-Match, which Amazon S3 has since November 2024,
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html. Stores that ignore these headers are found
// out by [blobguard.New], which refuses them. Reads see every write that was acknowledged before, as those of Amazon S3 do;
// a cache or a replica in between breaks that.
//
// The version of an object is its ETag, which S3 servers make from the content: the same bytes have the same version, so
// UniqueVersions is false, and [blobguard.Verbatim] is refused.
//
// Rights that it needs: s3:GetObject, s3:PutObject, s3:DeleteObject, and s3:ListBucket, without which S3 answers 403 instead
// of 404 for what is not there. No lifecycle rule may expire guarded objects: their marks would go with them.
//
// Stores that keep objects as files, such as versitygw and SeaweedFS, cannot have an object "account" beside one "account/1":
// the second of the two is refused. Where your resources have such names, give them other keys by blobguard's Options.Key.
//
// Tested on versitygw 1.8.0, not on Amazon S3 itself.
package s3bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/fencedlock/fencedlock/guard/blobguard"
)

// MaxSize is the largest object in bytes that one PutObject takes on Amazon S3, 5 GiB, stamp included. Put refuses larger
// bodies: a multipart upload checks its condition at other moments, or on some servers never, so it is no fence.
const MaxSize = 5 << 30

// Bucket is one bucket. It is safe for concurrent use. [New] makes one; the zero Bucket is of no use.
type Bucket struct {
	client *s3.Client
	name   string
}

var _ blobguard.Bucket = (*Bucket)(nil)

// New returns the bucket of that name. It does no I/O. The client's own retries are used for reads and lists, and are switched
// off for Put and Delete. Whether checksums are sent and checked is the client's choice, see
// RequestChecksumCalculation and ResponseChecksumValidation of s3.Options. Over plain HTTP the SDK reads each body twice,
// first to sign it; over HTTPS once.
//
// A nil client and an empty name are the error of each call.
func New(client *s3.Client, bucket string) *Bucket { return &Bucket{client: client, name: bucket} }

// UniqueVersions implements [blobguard.Bucket]: false.
func (b *Bucket) UniqueVersions() bool { return false }

// once switches the SDK's retries off: the answer to a second request says nothing about the first, which can come late.
func once(o *s3.Options) { o.Retryer, o.RetryMaxAttempts = aws.NopRetryer{}, 0 }

func (b *Bucket) usable() error {
	if b == nil || b.client == nil || b.name == "" {
		return errors.New("s3bucket: no client, or no name of a bucket; make one with New")
	}
	return nil
}

func (b *Bucket) errorf(what, key string, err error) error {
	return fmt.Errorf("s3bucket: %s %q in %q: %w", what, key, b.name, err)
}

// Get implements [blobguard.Bucket].
func (b *Bucket) Get(ctx context.Context, key string, offset, length int64) (blobguard.Object, error) {
	if err := b.usable(); err != nil {
		return blobguard.Object{}, err
	}
	in := &s3.GetObjectInput{Bucket: &b.name, Key: &key}
	switch {
	case offset < 0:
		in.Range = aws.String("bytes=" + strconv.FormatInt(offset, 10))
	case length == 0:
		// Not HEAD, whose 404 does not say whether it is the object or the bucket that is missing.
		offset = 0
		in.Range = aws.String("bytes=0-0")
	case length > 0:
		in.Range = aws.String(fmt.Sprintf("bytes=%d-%d", offset, offset+length-1))
	case offset > 0:
		in.Range = aws.String(fmt.Sprintf("bytes=%d-", offset))
	}
	out, err := b.client.GetObject(ctx, in)
	switch {
	case err != nil && code(err) == "InvalidRange":
		return b.head(ctx, key)
	case err != nil && code(err) == "NoSuchKey":
		return blobguard.Object{}, b.errorf("GetObject", key, fmt.Errorf("%w: %w", blobguard.ErrNotExist, brief(err)))
	case err != nil:
		return blobguard.Object{}, b.errorf("GetObject", key, brief(err))
	}
	o := blobguard.Object{Body: out.Body, Version: version(out.ETag), Size: aws.ToInt64(out.ContentLength)}
	if in.Range != nil {
		o.Size, err = wholeSize(aws.ToString(out.ContentRange), o.Size)
	}
	if err == nil && o.Version == "" {
		err = errors.New("the answer has no ETag")
	}
	if err == nil && length == 0 {
		err = out.Body.Close()
		o.Body = io.NopCloser(strings.NewReader(""))
	}
	if err != nil {
		return blobguard.Object{}, b.errorf("GetObject", key, errors.Join(err, out.Body.Close()))
	}
	return o, nil
}

// wholeSize reads the size of the object from "bytes 0-9/100". A server that leaves the range aside, as they may for an
// empty object, would give bytes that nobody asked for; only of an empty object they are the right ones.
func wholeSize(contentRange string, length int64) (int64, error) {
	if contentRange == "" && length == 0 {
		return 0, nil
	}
	_, total, ok := strings.Cut(contentRange, "/")
	n, err := strconv.ParseInt(total, 10, 64)
	if !ok || err != nil || n < 0 {
		return 0, fmt.Errorf("a range was asked for, and the answer's Content-Range is %q", contentRange)
	}
	return n, nil
}

// head is for what has no byte in the range.
func (b *Bucket) head(ctx context.Context, key string) (blobguard.Object, error) {
	out, err := b.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &b.name, Key: &key})
	var gone *types.NotFound
	switch {
	case errors.As(err, &gone): // the bucket is there: it has just told that the range is not
		return blobguard.Object{}, b.errorf("HeadObject", key, fmt.Errorf("%w: %w", blobguard.ErrNotExist, brief(err)))
	case err != nil:
		return blobguard.Object{}, b.errorf("HeadObject", key, brief(err))
	case version(out.ETag) == "":
		return blobguard.Object{}, b.errorf("HeadObject", key, errors.New("the answer has no ETag"))
	}
	return blobguard.Object{Body: io.NopCloser(strings.NewReader("")), Version: version(out.ETag), Size: aws.ToInt64(out.ContentLength)}, nil
}

// version is the ETag without quotes, which some servers leave out in some answers.
func version(etag *string) blobguard.Version {
	return blobguard.Version(strings.Trim(aws.ToString(etag), `"`))
}

// Put implements [blobguard.Bucket]. A body of more than [MaxSize] bytes gives an error that wraps blobguard.ErrRefused.
func (b *Bucket) Put(ctx context.Context, key string, body io.ReadSeeker, expect blobguard.Version) (blobguard.Version, error) {
	if err := b.usable(); err != nil {
		return "", fmt.Errorf("%w: %w", blobguard.ErrRefused, err)
	}
	size, err := body.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = body.Seek(0, io.SeekStart)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err == nil && size > MaxSize {
		err = fmt.Errorf("%d bytes, stamp included; one PutObject takes %d, and a multipart upload is no fence: split the data, "+
			"or keep it in objects of their own and guard a small one that names them", size, int64(MaxSize))
	}
	if err != nil {
		return "", b.errorf("PutObject", key, fmt.Errorf("%w: %w", blobguard.ErrRefused, err))
	}
	tracked := &sent{r: body, size: size}
	in := &s3.PutObjectInput{Bucket: &b.name, Key: &key, Body: tracked, ContentLength: &size}
	if expect == "" {
		in.IfNoneMatch = aws.String("*")
	} else {
		in.IfMatch = aws.String(`"` + string(expect) + `"`)
	}
	out, err := b.client.PutObject(ctx, in, once, tracked.watch)
	begun, whole, failed := tracked.end()
	if err != nil && !begun {
		return "", b.errorf("PutObject", key, fmt.Errorf("%w: the request was not sent: %w", blobguard.ErrRefused, err))
	}
	if err != nil {
		return "", b.errorf("PutObject", key, classify(brief(err), expect, whole, failed))
	}
	v := version(out.ETag)
	if v == "" {
		return "", b.errorf("PutObject", key, errors.New("the answer has no ETag"))
	}
	return v, nil
}

// Delete implements [blobguard.Bucket]. In a bucket with versioning it adds a delete marker.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	err := b.usable()
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", blobguard.ErrRefused, err)
	}
	if _, err := b.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.name, Key: &key}, once); err != nil && code(err) != "NoSuchKey" {
		return b.errorf("DeleteObject", key, classify(brief(err), "", true, nil))
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
		pages := s3.NewListObjectsV2Paginator(b.client, &s3.ListObjectsV2Input{Bucket: &b.name, Prefix: &prefix})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				yield("", b.errorf("ListObjectsV2", prefix, brief(err)))
				return
			}
			for _, o := range page.Contents {
				if !yield(aws.ToString(o.Key), nil) {
					return
				}
			}
		}
	}
}
