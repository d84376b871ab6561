// Package membucket is a bucket in memory, for tests of guards and of the suite for buckets.
package membucket

import (
	"bytes"
	"context"
	"crypto/md5"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/fencedlock/fencedlock/guard/blobguard"
)

// Bucket is a [blobguard.StampBucket]. New makes one.
type Bucket struct {
	unique bool

	mu      sync.Mutex
	n       int               // writes; guarded by mu
	objects map[string]object // guarded by mu
}

type object struct {
	content []byte
	stamp   string
	version blobguard.Version
}

// New returns an empty bucket. unique: each write gets a version of its own, as in Google Cloud Storage and Azure; else the
// version is made from the content alone, as in S3.
func New(unique bool) *Bucket { return &Bucket{unique: unique, objects: make(map[string]object)} }

// UniqueVersions implements [blobguard.Bucket].
func (b *Bucket) UniqueVersions() bool { return b.unique }

// Get implements [blobguard.Bucket].
func (b *Bucket) Get(ctx context.Context, key string, offset, length int64) (blobguard.Object, error) {
	if err := ctx.Err(); err != nil {
		return blobguard.Object{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	o, ok := b.objects[key]
	if !ok {
		return blobguard.Object{}, fmt.Errorf("membucket: %q: %w", key, blobguard.ErrNotExist)
	}
	size := int64(len(o.content))
	if offset < 0 {
		offset, length = max(0, size+offset), -1
	}
	offset = min(offset, size)
	if length < 0 || length > size-offset {
		length = size - offset
	}
	return blobguard.Object{Body: io.NopCloser(bytes.NewReader(o.content[offset : offset+length])), Version: o.version, Size: size, Stamp: o.stamp}, nil
}

// Put implements [blobguard.Bucket].
func (b *Bucket) Put(ctx context.Context, key string, body io.ReadSeeker, expect blobguard.Version) (blobguard.Version, error) {
	return b.PutStamped(ctx, key, body, "", expect)
}

// PutStamped implements [blobguard.StampBucket].
func (b *Bucket) PutStamped(ctx context.Context, key string, body io.ReadSeeker, stamp string, expect blobguard.Version) (blobguard.Version, error) {
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return "", fmt.Errorf("%w: %w", blobguard.ErrRefused, err)
	}
	content, err := io.ReadAll(body)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", blobguard.ErrRefused, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := b.objects[key].version; now != expect {
		return "", fmt.Errorf("membucket: %q has version %q, not %q: %w", key, now, expect, blobguard.ErrConflict)
	}
	b.n++
	v := blobguard.Version(fmt.Sprintf("%x", md5.Sum(content)))
	if b.unique {
		v = blobguard.Version(fmt.Sprint(b.n))
	}
	b.objects[key] = object{content, stamp, v}
	return v, nil
}

// Delete implements [blobguard.Bucket].
func (b *Bucket) Delete(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", blobguard.ErrRefused, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.objects, key)
	return nil
}

// List implements [blobguard.Bucket].
func (b *Bucket) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := ctx.Err(); err != nil {
			yield("", err)
			return
		}
		b.mu.Lock()
		keys := slices.Sorted(maps.Keys(b.objects))
		b.mu.Unlock()
		for _, k := range keys {
			if strings.HasPrefix(k, prefix) && !yield(k, nil) {
				return
			}
		}
	}
}
