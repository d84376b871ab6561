package buckettest

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/internal/membucket"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestGoodBucketsPass(t *testing.T) {
	for name, unique := range map[string]bool{"unique versions": true, "versions made from the content": false} {
		t.Run(name, func(t *testing.T) {
			Run(t, func(*testing.T) blobguard.Bucket { return membucket.New(unique) })
		})
	}
}

// bad is a bucket with one fault. Fields that are nil leave the good one's answer.
type bad struct {
	*membucket.Bucket
	get    func(b *membucket.Bucket, ctx context.Context, key string, offset, length int64) (blobguard.Object, error)
	put    func(b *membucket.Bucket, ctx context.Context, key string, body io.ReadSeeker, stamp string, expect blobguard.Version) (blobguard.Version, error)
	del    func(b *membucket.Bucket, ctx context.Context, key string) error
	unique bool // claims it
}

func (b bad) Delete(ctx context.Context, key string) error {
	if b.del == nil {
		return b.Bucket.Delete(ctx, key)
	}
	return b.del(b.Bucket, ctx, key)
}

func (b bad) UniqueVersions() bool { return b.unique || b.Bucket.UniqueVersions() }

func (b bad) Get(ctx context.Context, key string, offset, length int64) (blobguard.Object, error) {
	if b.get == nil {
		return b.Bucket.Get(ctx, key, offset, length)
	}
	return b.get(b.Bucket, ctx, key, offset, length)
}

func (b bad) Put(ctx context.Context, key string, body io.ReadSeeker, expect blobguard.Version) (blobguard.Version, error) {
	return b.PutStamped(ctx, key, body, "", expect)
}

func (b bad) PutStamped(ctx context.Context, key string, body io.ReadSeeker, stamp string, expect blobguard.Version) (blobguard.Version, error) {
	if b.put == nil {
		return b.Bucket.PutStamped(ctx, key, body, stamp, expect)
	}
	return b.put(b.Bucket, ctx, key, body, stamp, expect)
}

// now is the condition that always holds.
func now(b *membucket.Bucket, key string) blobguard.Version {
	o, err := b.Get(context.Background(), key, 0, 0)
	if err != nil {
		return ""
	}
	return o.Version
}

func TestBadBucketsAreFound(t *testing.T) {
	ignores := func(when func(size int64, expect, now blobguard.Version) bool) bad {
		return bad{Bucket: membucket.New(false), put: func(b *membucket.Bucket, ctx context.Context, key string, body io.ReadSeeker, stamp string, expect blobguard.Version) (blobguard.Version, error) {
			size, _ := body.Seek(0, io.SeekEnd)
			if n := now(b, key); when(size, expect, n) {
				expect = n
			}
			return b.PutStamped(ctx, key, body, stamp, expect)
		}}
	}
	for name, c := range map[string]struct {
		bucket bad
		check  string
	}{
		"ignores If-None-Match":                 {ignores(func(_ int64, e, _ blobguard.Version) bool { return e == "" }), "Create"},
		"ignores If-Match":                      {ignores(func(_ int64, e, n blobguard.Version) bool { return e != "" && n != "" }), "Replace"},
		"ignores both":                          {ignores(func(int64, blobguard.Version, blobguard.Version) bool { return true }), "Race"},
		"ignores If-Match where it is gone":     {ignores(func(_ int64, e, n blobguard.Version) bool { return e != "" && n == "" }), "Vanished"},
		"ignores the condition of large bodies": {ignores(func(size int64, _, _ blobguard.Version) bool { return size > 5<<20 }), "Create"},
		"claims unique versions":                {bad{Bucket: membucket.New(false), unique: true}, "SameBytes"},
		"takes what is not there for empty": {bad{Bucket: membucket.New(false), get: func(b *membucket.Bucket, ctx context.Context, key string, offset, length int64) (blobguard.Object, error) {
			o, err := b.Get(ctx, key, offset, length)
			if errors.Is(err, blobguard.ErrNotExist) {
				return blobguard.Object{Body: io.NopCloser(strings.NewReader("")), Version: "0"}, nil
			}
			return o, err
		}}, "Absent"},
		"has the size of the range": {bad{Bucket: membucket.New(false), get: func(b *membucket.Bucket, ctx context.Context, key string, offset, length int64) (blobguard.Object, error) {
			o, err := b.Get(ctx, key, offset, length)
			if err == nil && length >= 0 {
				o.Size = min(o.Size, length)
			}
			return o, err
		}}, "Range"},
		"reads from where the body stands": {bad{Bucket: membucket.New(false), put: func(b *membucket.Bucket, ctx context.Context, key string, body io.ReadSeeker, stamp string, expect blobguard.Version) (blobguard.Version, error) {
			c, err := io.ReadAll(body)
			if err != nil {
				return "", err
			}
			return b.PutStamped(ctx, key, strings.NewReader(string(c)), stamp, expect)
		}}, "Body"},
		"keeps the stamp": {bad{Bucket: membucket.New(true), put: func(b *membucket.Bucket, ctx context.Context, key string, body io.ReadSeeker, stamp string, expect blobguard.Version) (blobguard.Version, error) {
			if o, err := b.Get(ctx, key, 0, 0); stamp == "" && err == nil {
				stamp = o.Stamp
			}
			return b.PutStamped(ctx, key, body, stamp, expect)
		}}, "Stamp"},
		"goes on when the context has ended": {bad{Bucket: membucket.New(true), put: func(b *membucket.Bucket, ctx context.Context, key string, body io.ReadSeeker, stamp string, expect blobguard.Version) (blobguard.Version, error) {
			return b.PutStamped(context.WithoutCancel(ctx), key, body, stamp, expect)
		}}, "Cancelled"},
		"leaves open whether a body that fails was written": {bad{Bucket: membucket.New(true), put: func(b *membucket.Bucket, ctx context.Context, key string, body io.ReadSeeker, stamp string, expect blobguard.Version) (blobguard.Version, error) {
			v, err := b.PutStamped(ctx, key, body, stamp, expect)
			if errors.Is(err, blobguard.ErrRefused) {
				err = errBroken
			}
			return v, err
		}}, "Body"},
		"leaves open whether it will remove after the context has ended": {bad{Bucket: membucket.New(true), del: func(b *membucket.Bucket, ctx context.Context, key string) error {
			return errors.Join(ctx.Err(), b.Delete(context.WithoutCancel(ctx), "another"))
		}}, "Cancelled"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, check := range checks {
				if check.name == c.check {
					if err := check.run(t.Context(), c.bucket); err == nil {
						t.Errorf("%s finds nothing", check.name)
					} else {
						t.Log(err)
					}
					return
				}
			}
			t.Errorf("there is no check %q", c.check)
		})
	}
}
