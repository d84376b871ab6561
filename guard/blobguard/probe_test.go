//go:build unix

package blobguard_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/internal/membucket"
	"github.com/fencedlock/fencedlock/guard/blobguard/s3bucket"
	"github.com/fencedlock/fencedlock/internal/s3test"
)

// A store that does not know the conditions takes every write, and says so to nobody.
//
// https://github.com/pithings/mountx/issues/19
// https://github.com/coollabsio/maxio/pull/20
// https://github.com/fsouza/fake-gcs-server/pull/2308
func TestStoreThatIgnoresConditionsIsRefused(t *testing.T) {
	s := s3test.Shared(t)
	for name, ignores := range map[string]func(r *http.Request) bool{
		"If-None-Match": func(r *http.Request) bool { return r.Header.Get("If-None-Match") != "" },
		"If-Match":      func(r *http.Request) bool { return r.Header.Get("If-Match") != "" },
		"both":          func(r *http.Request) bool { return true },
	} {
		bucket := s.Bucket(t)
		proxy := s3test.NewProxy(t, s.Address())
		proxy.Set(func(r *http.Request) s3test.Fault {
			if r.Method == http.MethodPut && ignores(r) {
				return s3test.DropConditions
			}
			return s3test.Pass
		})
		b := s3bucket.New(s3test.NewClient(t, proxy.Address()), bucket)
		g, err := blobguard.New(t.Context(), b, &blobguard.Options{Prefix: "here/"})
		if err == nil || g != nil || !strings.Contains(err.Error(), "cannot be guarded") || !strings.Contains(err.Error(), "ignores conditions") {
			t.Errorf("%s: New = %v, %v; want an error that says that conditions are ignored", name, g, err)
		}
		if left := keys(t, b, ""); len(left) > 0 {
			t.Errorf("%s: the probe left %q", name, left)
		}
		for _, r := range proxy.Requests() {
			if p := strings.TrimPrefix(r.URL.Path, "/"+bucket); !strings.HasPrefix(p, "/here/fencedlock-probe-") && p != "" {
				t.Errorf("%s: the probe touched %q", name, p)
			}
		}
	}
}

func TestProbeLeavesNothing(t *testing.T) {
	b, bucket := newBucket(t)
	newGuard(t, b, nil)
	if left := keys(t, b, ""); len(left) > 0 {
		t.Errorf("the probe of a good store left %q", left)
	}
	proxy, through := throughProxy(t, bucket)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	puts := 0
	proxy.Set(func(r *http.Request) s3test.Fault {
		if r.Method == http.MethodPut {
			if puts++; puts == 3 {
				cancel()
			}
		}
		return s3test.Pass
	})
	if _, err := blobguard.New(ctx, through, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("New = %v; want context.Canceled", err)
	}
	if left := keys(t, b, ""); len(left) > 0 {
		t.Errorf("a probe that was cancelled left %q", left)
	}
}

// strange is a bucket with one fault.
type strange struct {
	*membucket.Bucket
	get func(o blobguard.Object, err error) (blobguard.Object, error)
	put func(v blobguard.Version, err error) (blobguard.Version, error)
}

func (s strange) Get(ctx context.Context, key string, offset, length int64) (blobguard.Object, error) {
	o, err := s.Bucket.Get(ctx, key, offset, length)
	if s.get != nil {
		return s.get(o, err)
	}
	return o, err
}

func (s strange) Put(ctx context.Context, key string, body io.ReadSeeker, expect blobguard.Version) (blobguard.Version, error) {
	v, err := s.Bucket.Put(ctx, key, body, expect)
	if s.put != nil {
		return s.put(v, err)
	}
	return v, err
}

func TestStoreWithOtherFaultsIsRefused(t *testing.T) {
	old := blobguard.Object{}
	for name, b := range map[string]strange{
		"reads what was there before": {get: func(o blobguard.Object, err error) (blobguard.Object, error) {
			if err != nil {
				return o, err
			}
			if old.Version == "" {
				old = o
			}
			old.Body = io.NopCloser(strings.NewReader("one"))
			return old, nil
		}},
		"has one version":         {put: func(_ blobguard.Version, err error) (blobguard.Version, error) { return "v", err }},
		"finds what is not there": {get: func(o blobguard.Object, _ error) (blobguard.Object, error) { o.Body = http.NoBody; return o, nil }},
		"answers otherwise to conflict": {put: func(v blobguard.Version, err error) (blobguard.Version, error) {
			if err != nil {
				err = errors.New("500")
			}
			return v, err
		}},
	} {
		b.Bucket = membucket.New(false)
		if _, err := blobguard.New(t.Context(), b, nil); err == nil {
			t.Errorf("%s: New = nil; want an error", name)
		}
		if left := keys(t, b, ""); len(left) > 0 {
			t.Errorf("%s: the probe left %q", name, left)
		}
	}
	for name, ignores := range map[string]func(now blobguard.Version) bool{
		"takes a write on a former version":       func(now blobguard.Version) bool { return now != "" },
		"takes a write on a version that is gone": func(now blobguard.Version) bool { return now == "" },
	} {
		b := lax{membucket.New(false), ignores}
		if _, err := blobguard.New(t.Context(), b, nil); err == nil || !strings.Contains(err.Error(), "ignores conditions") {
			t.Errorf("%s: New = %v; want an error that says that conditions are ignored", name, err)
		}
		if left := keys(t, b, ""); len(left) > 0 {
			t.Errorf("%s: the probe left %q", name, left)
		}
	}
	claims := claimsUnique{membucket.New(false)}
	for _, codec := range []blobguard.Codec{blobguard.Verbatim(), blobguard.JSON()} {
		if _, err := blobguard.New(t.Context(), claims, &blobguard.Options{Codec: codec}); err == nil {
			t.Errorf("%s on a bucket that claims unique versions and has none: New = nil; want an error", codec)
		}
	}
}

// gone answers reads only.
type gone struct{ *membucket.Bucket }

var errGone = errors.New("connection lost")

func (gone) Put(context.Context, string, io.ReadSeeker, blobguard.Version) (blobguard.Version, error) {
	return "", errGone
}

func (gone) Delete(context.Context, string) error { return errGone }

// lax ignores If-Match at times.
type lax struct {
	*membucket.Bucket
	ignores func(now blobguard.Version) bool
}

func (l lax) Put(ctx context.Context, key string, body io.ReadSeeker, expect blobguard.Version) (blobguard.Version, error) {
	var now blobguard.Version
	if o, err := l.Get(ctx, key, 0, 0); err == nil {
		now = o.Version
	}
	if expect != "" && l.ignores(now) {
		expect = now
	}
	return l.Bucket.Put(ctx, key, body, expect)
}

type claimsUnique struct{ *membucket.Bucket }

func (claimsUnique) UniqueVersions() bool { return true }

// What is wrong with the bucket is said once, and first.
func TestBucketThatCannotBeUsedIsNamedInShort(t *testing.T) {
	s := s3test.Shared(t)
	proxy := s3test.NewProxy(t, s.Address())
	proxy.Set(func(r *http.Request) s3test.Fault { return s3test.Pass })
	_, err := blobguard.New(t.Context(), s3bucket.New(s3test.NewClient(t, proxy.Address()), "nosuch"), nil)
	if err == nil {
		t.Fatal("New = nil; want an error")
	}
	text := err.Error()
	if !strings.HasPrefix(text, "blobguard: cannot use the bucket: ") || !strings.Contains(text, `in "nosuch": NoSuchBucket: `) || !strings.Contains(text, "create it") ||
		strings.Count(text, "NoSuchBucket") != 1 || strings.Contains(text, "cannot be guarded") || len(text) > 400 {
		t.Errorf("New = %v (%d bytes)", text, len(text))
	}
	if log := proxy.Requests(); len(log) != 1 {
		t.Errorf("it took %d requests; want the read alone, since there is nothing to remove", len(log))
	}

	// It goes away after the first read, so nothing can be removed either.
	_, err = blobguard.New(t.Context(), gone{membucket.New(false)}, nil)
	if err == nil || strings.Count(err.Error(), errGone.Error()) != 1 || !strings.Contains(err.Error(), "may be left at \"fencedlock-probe-") {
		t.Errorf("New = %v; want the cause once, and what may be left", err)
	}

	// A client that may read and not write, and an address where nobody is.
	for name, b := range map[string]blobguard.Bucket{
		"no right to write": strange{Bucket: membucket.New(false), put: func(blobguard.Version, error) (blobguard.Version, error) { return "", errors.New("AccessDenied") }},
		"nobody there":      s3bucket.New(s3test.NewClient(t, "127.0.0.1:1"), "b"),
	} {
		_, err := blobguard.New(t.Context(), b, nil)
		if err == nil || !strings.HasPrefix(err.Error(), "blobguard: cannot use the bucket: ") || !strings.Contains(err.Error(), "rights") ||
			strings.Contains(err.Error(), "cannot be guarded") || strings.Count(err.Error(), "refused")+strings.Count(err.Error(), "AccessDenied") != 1 {
			t.Errorf("%s: New = %v", name, err)
		}
	}
}

// hanging is a store that does not answer to writes.
type hanging struct {
	*membucket.Bucket
	refused bool // it is certain that nothing is written
	deletes int
}

func (h *hanging) Put(ctx context.Context, _ string, _ io.ReadSeeker, _ blobguard.Version) (blobguard.Version, error) {
	<-ctx.Done()
	if h.refused {
		return "", errors.Join(blobguard.ErrRefused, ctx.Err())
	}
	return "", ctx.Err()
}

func (h *hanging) Delete(ctx context.Context, _ string) error {
	h.deletes++
	<-ctx.Done()
	return ctx.Err()
}

// New goes on after its context only where there may be something to remove, and not for long.
func TestNewEndsSoonAfterItsContext(t *testing.T) {
	for refused, more := range map[bool]time.Duration{true: 0, false: 2 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			begun := time.Now()
			b := &hanging{Bucket: membucket.New(false), refused: refused}
			_, err := blobguard.New(ctx, b, nil)
			if took := time.Since(begun) - time.Second; !errors.Is(err, context.DeadlineExceeded) || took != more || (b.deletes == 0) != refused {
				t.Errorf("New = %v %v after its context, with %d deletions; want %v", err, took, b.deletes, more)
			}
		})
	}
}
