//go:build unix

package blobguard_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/internal/s3test"
)

// replace writes an object without the guard.
func replace(t testing.TB, b blobguard.Bucket, key, content string) {
	t.Helper()
	o, err := b.Get(t.Context(), key, 0, 0)
	if err == nil {
		err = o.Body.Close()
	} else if errors.Is(err, blobguard.ErrNotExist) {
		err = nil
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Put(t.Context(), key, strings.NewReader(content), o.Version); err != nil {
		t.Fatal(err)
	}
}

// What this guard has seen is gone: made anew with a low token, it would let all the late writers in.
//
// https://github.com/apache/arrow-rs/pull/6801
// https://github.com/minio/minio/issues/21603
func TestVanishedObjectIsNotMadeAnew(t *testing.T) {
	onEach(t, func(t *testing.T, codec blobguard.Codec) {
		b, _ := newBucket(t)
		for name, c := range map[string]struct {
			lose func(key, old string)
			now  guard.Token
		}{
			"deleted":                {func(key, _ string) { _ = b.Delete(t.Context(), key) }, 0},
			"restored from a copy":   {func(key, old string) { replace(t, b, key, old) }, 4},
			"overwritten, no stamp":  {func(key, _ string) { replace(t, b, key, `{"plain":1}`) }, 0},
			"overwritten, by nobody": {func(key, _ string) { replace(t, b, key, "") }, 0},
		} {
			key := strings.ReplaceAll(name, " ", "-")
			g := newGuard(t, b, &blobguard.Options{Codec: codec, Adopt: true})
			mustPut(t, g, key, 4, encode(codec, "a"))
			old := raw(t, b, key)
			mustPut(t, g, key, 6, encode(codec, "b"))
			c.lose(key, old)
			refused := func(op string, err error) {
				t.Helper()
				// These two send a request over what they know, which may have been applied and then lost.
				sent := op == "Put" || op == "Delete"
				if !errors.Is(err, blobguard.ErrMarkLost) || errors.Is(err, guard.ErrUnknown) != sent || errors.Is(err, guard.ErrStale) {
					t.Errorf("%s: %s = %v; want ErrMarkLost; ErrUnknown is to be %v", name, op, err, sent)
				}
			}
			for range 2 { // it does not get used to it
				refused("Put", put(t, g, key, 9, encode(codec, "c")))
				refused("Delete", g.Delete(t.Context(), key, 9))
				refused("Seal", g.Seal(t.Context(), key, 9))
				_, err := g.Highest(t.Context(), key)
				refused("Highest", err)
				_, _, err = get(t, g, key)
				refused("Get", err)
			}
			fresh := newGuard(t, b, &blobguard.Options{Codec: codec, Adopt: true})
			if m, err := fresh.Highest(t.Context(), key); m != c.now || err != nil {
				t.Errorf("%s: the mark is %d, %v; want %d: nobody was to write", name, int64(m), err, int64(c.now))
			}
			if err := g.Purge(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			mustPut(t, g, key, 9, encode(codec, "c"))
			holds(t, g, key, encode(codec, "c"), 9)
		}
	})
}

// It vanishes between the guard's look and its write, which the server answers with 404.
func TestObjectThatVanishesDuringAWriteIsNotMadeAnew(t *testing.T) {
	onEach(t, func(t *testing.T, codec blobguard.Codec) {
		b, bucket := newBucket(t)
		for _, f := range []s3test.Fault{s3test.Pass, s3test.LoseRequest} {
			proxy, through := throughProxy(t, bucket)
			mustPut(t, newGuard(t, b, &blobguard.Options{Codec: codec}), "doc", 5, encode(codec, "a"))
			g := newGuard(t, through, &blobguard.Options{Codec: codec})
			proxy.Set(func(r *http.Request) s3test.Fault {
				if r.Method != http.MethodPut || isData(r) {
					return s3test.Pass
				}
				_ = b.Delete(t.Context(), "doc")
				return f
			})
			err := put(t, g, "doc", 5, encode(codec, "b"))
			if !errors.Is(err, blobguard.ErrMarkLost) {
				t.Errorf("Put = %v; want ErrMarkLost", err)
			}
			if !errors.Is(err, guard.ErrUnknown) { // it may have been written and then deleted
				t.Errorf("Put = %v; want ErrUnknown, too", err)
			}
			if _, err := b.Get(t.Context(), "doc", 0, 0); !errors.Is(err, blobguard.ErrNotExist) {
				t.Errorf("the object is there again: %v", err)
			}
		}
	})
}
