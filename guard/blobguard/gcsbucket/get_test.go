//go:build unix

package gcsbucket_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/gcsbucket"
	"github.com/fencedlock/fencedlock/internal/gcstest"
)

func TestCallsOfABucketWithoutAClientFail(t *testing.T) {
	var none *gcsbucket.Bucket
	for _, b := range []*gcsbucket.Bucket{none, {}, gcsbucket.New(nil, "bucket"), gcsbucket.New(newClient(t, "127.0.0.1:1"), "")} {
		_, get := b.Get(t.Context(), "k", 0, -1)
		_, put := b.Put(t.Context(), "k", strings.NewReader("x"), "")
		del := b.Delete(t.Context(), "k")
		var list error
		for _, list = range b.List(t.Context(), "") {
		}
		for _, err := range []error{get, put, del, list} {
			if err == nil || !strings.Contains(err.Error(), "gcsbucket: no client, or no name of a bucket") {
				t.Errorf("%v; want an error that says what is missing", err)
			}
		}
		if _, err := blobguard.New(t.Context(), b, nil); err == nil {
			t.Error("blobguard.New takes it")
		}
	}
}

// "There is no data" and "there is no bucket" must not be taken for each other.
func TestMissingBucketIsNoMissingObject(t *testing.T) {
	b := gcsbucket.New(newClient(t, gcstest.Shared(t).Address()), "no-such-bucket")
	for _, r := range [][2]int64{{0, -1}, {0, 0}, {3, 4}, {-5, -1}} {
		if _, err := b.Get(t.Context(), "k", r[0], r[1]); err == nil || errors.Is(err, blobguard.ErrNotExist) {
			t.Errorf("Get(%d, %d) = %v; want an error other than ErrNotExist", r[0], r[1], err)
		}
	}
	if err := b.Delete(t.Context(), "k"); err == nil {
		t.Error("Delete = nil")
	}
}

// Cloud Storage and Go's HTTP client unpack such an object on the way, so neither its stamp nor its size would be right.
func TestObjectThatIsUnpackedOnTheWayIsAnError(t *testing.T) {
	s := gcstest.Shared(t)
	name := newName(t, s)
	client := newClient(t, s.Address())
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := io.WriteString(z, "0123456789")
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	w := client.Bucket(name).Object("packed").NewWriter(t.Context())
	w.ContentEncoding = "gzip"
	_, err = w.Write(packed.Bytes())
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	b := gcsbucket.New(client, name)
	if o, err := b.Get(t.Context(), "packed", 0, -1); err == nil || !strings.Contains(err.Error(), "Content-Encoding") {
		t.Errorf("Get = %v, %v; want an error that names Content-Encoding", o, err)
	}
}

// The object is replaced between two requests of one Get; what comes back is all of one version.
func TestGetMixesNoVersions(t *testing.T) {
	direct, through, proxy := newBucket(t)
	v := mustPut(t, direct, "k", "012", "")
	requests := 0
	proxy.Set(func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		if requests++; requests == 2 { // after the range was found to be empty
			v = mustPut(t, direct, "k", "0123456789", v)
		}
		forward.ServeHTTP(w, r)
	})
	o, err := through.Get(t.Context(), "k", 5, -1)
	if err != nil {
		t.Fatal(err)
	}
	c, err := io.ReadAll(o.Body)
	if err := errors.Join(err, o.Body.Close()); err != nil {
		t.Fatal(err)
	}
	if string(c) != "56789" || o.Version != v || o.Size != 10 || requests < 3 {
		t.Errorf("%q of version %q, size %d, after %d requests; want \"56789\" of %q, 10", c, o.Version, o.Size, requests, v)
	}
}

// A stamp is read with one more request from objects that others wrote, and from those only.
func TestGetOfAnObjectThatPutWroteIsOneRequest(t *testing.T) {
	_, through, proxy := newBucket(t)
	v := mustPut(t, through, "k", "0123456789", "")
	if _, err := through.PutStamped(t.Context(), "k", strings.NewReader("0123456789"), "stamp", v); err != nil {
		t.Fatal(err)
	}
	mustPut(t, through, "plain", "0123456789", "")
	for _, key := range []string{"k", "plain"} {
		for _, r := range [][2]int64{{0, -1}, {0, 0}, {2, 3}, {-3, -1}} {
			requests := 0
			proxy.Set(func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
				requests++
				forward.ServeHTTP(w, r)
			})
			o, err := through.Get(t.Context(), key, r[0], r[1])
			if err != nil {
				t.Fatal(err)
			}
			if err := o.Body.Close(); err != nil || requests != 1 {
				t.Errorf("Get(%q, %d, %d) took %d requests, %v", key, r[0], r[1], requests, err)
			}
		}
	}
}

// A cache would give old marks for new ones, https://cloud.google.com/storage/docs/caching.
func TestObjectsAreKeptOutOfCaches(t *testing.T) {
	s := gcstest.Shared(t)
	name := newName(t, s)
	client := newClient(t, s.Address())
	mustPut(t, gcsbucket.New(client, name), "k", "x", "")
	attrs, err := client.Bucket(name).Object("k").Attrs(t.Context())
	if err != nil || attrs.CacheControl != "no-store" || attrs.ContentType != "application/octet-stream" || attrs.ContentEncoding != "" {
		t.Errorf("Cache-Control %q, type %q, encoding %q, %v", attrs.CacheControl, attrs.ContentType, attrs.ContentEncoding, err)
	}
}

// Somebody has changed the metadata by hand: a mark that cannot be read is not the same as none.
func TestStampWithoutItsFrameIsNoMissingStamp(t *testing.T) {
	s := gcstest.Shared(t)
	name := newName(t, s)
	client := newClient(t, s.Address())
	for _, value := range []string{"5", "[5", "5]"} {
		w := client.Bucket(name).Object("k").NewWriter(t.Context())
		w.Metadata = map[string]string{"fencedlock": value}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		b := gcsbucket.New(client, name)
		for _, length := range []int64{0, -1} {
			o, err := b.Get(t.Context(), "k", 0, length)
			if err != nil {
				t.Fatal(err)
			}
			if err := o.Body.Close(); err != nil || o.Stamp == "" || o.Stamp == "5" {
				t.Errorf("metadata %q: stamp %q, %v; want one that is no stamp", value, o.Stamp, err)
			}
		}
		g := newGuard(t, b, &blobguard.Options{Codec: blobguard.Verbatim(), Adopt: true})
		if m, err := g.Highest(t.Context(), "k"); err == nil {
			t.Errorf("metadata %q: Highest = %d; want an error", value, int64(m))
		}
	}
}

// withoutMetadata answers a download of the JSON interface as Cloud Storage does: fake-gcs-server sends the metadata with
// the bytes, which Cloud Storage does not, https://pkg.go.dev/cloud.google.com/go/storage#Reader.Metadata.
func withoutMetadata(w http.ResponseWriter, r *http.Request, forward http.Handler) {
	forward.ServeHTTP(stripped{w}, r)
}

type stripped struct{ http.ResponseWriter }

func (s stripped) WriteHeader(status int) {
	for name := range s.Header() {
		if strings.HasPrefix(name, "X-Goog-Meta-") {
			s.Header().Del(name)
		}
	}
	s.ResponseWriter.WriteHeader(status)
}
