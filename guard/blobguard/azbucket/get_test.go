//go:build unix

package azbucket_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"

	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/azbucket"
	"github.com/fencedlock/fencedlock/internal/aztest"
)

func TestCallsOfABucketWithoutAClientFail(t *testing.T) {
	var none *azbucket.Bucket
	for _, b := range []*azbucket.Bucket{none, {}, azbucket.New(nil)} {
		_, get := b.Get(t.Context(), "k", 0, -1)
		_, put := b.Put(t.Context(), "k", strings.NewReader("x"), "")
		del := b.Delete(t.Context(), "k")
		var list error
		for _, list = range b.List(t.Context(), "") {
		}
		for _, err := range []error{get, put, del, list} {
			if err == nil || !strings.Contains(err.Error(), "azbucket: no client") {
				t.Errorf("%v; want an error that says what is missing", err)
			}
		}
		if _, err := blobguard.New(t.Context(), b, nil); err == nil {
			t.Error("blobguard.New takes it")
		}
	}
}

// "There is no data" and "there is no container" must not be taken for each other.
func TestMissingContainerIsNoMissingBlob(t *testing.T) {
	b := azbucket.New(newClient(t, aztest.Shared(t).Address(), "no-such-container", nil))
	for _, r := range [][2]int64{{0, -1}, {0, 0}, {3, 4}, {-5, -1}} {
		if _, err := b.Get(t.Context(), "k", r[0], r[1]); err == nil || errors.Is(err, blobguard.ErrNotExist) {
			t.Errorf("Get(%d, %d) = %v; want an error other than ErrNotExist", r[0], r[1], err)
		}
	}
	if _, err := b.Get(t.Context(), "k", 0, -1); err == nil || !strings.Contains(err.Error(), `"k": ContainerNotFound (HTTP 404`) || len(err.Error()) > 200 || strings.Contains(err.Error(), "\n") {
		t.Errorf("Get = %v; want it in short", err)
	}
	for _, v := range []blobguard.Version{"", `"0x8D"`} {
		if _, err := b.Put(t.Context(), "k", strings.NewReader("x"), v); kind(err) != "refused" {
			t.Errorf("Put on %q = %v; want ErrRefused", v, err)
		}
	}
	if err := b.Delete(t.Context(), "k"); err == nil {
		t.Error("Delete = nil")
	}
}

// Go's HTTP client would unpack such a blob on the way, so neither its stamp nor its size would be right.
func TestPackedBlobIsReadAsItIsStored(t *testing.T) {
	s := aztest.Shared(t)
	client := newClient(t, s.Address(), newContainer(t, s), nil)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := io.WriteString(z, strings.Repeat("0123456789", 1000))
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	encoding := "gzip"
	if _, err := client.NewBlockBlobClient("packed").Upload(t.Context(), streaming.NopCloser(bytes.NewReader(packed.Bytes())), &blockblob.UploadOptions{
		HTTPHeaders: &blob.HTTPHeaders{BlobContentEncoding: &encoding},
	}); err != nil {
		t.Fatal(err)
	}
	b := azbucket.New(client)
	if got := content(t, b, "packed"); got != packed.String() {
		t.Errorf("Get gives %d bytes; want the %d that are stored", len(got), packed.Len())
	}
	o, err := b.Get(t.Context(), "packed", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Body.Close(); err != nil || o.Size != int64(packed.Len()) {
		t.Errorf("the size is %d, %v; want %d", o.Size, err, packed.Len())
	}
}

// The blob is replaced between two requests of one Get; what comes back is all of one version.
func TestGetMixesNoVersions(t *testing.T) {
	direct, through, proxy := newBucket(t)
	for name, c := range map[string]struct {
		offset    int64
		before    string
		now, want string
		atLeast   int
	}{
		"the-end":          {-4, "0123456789", "abcdefghijkl", "ijkl", 4},
		"the-end-of-empty": {-4, "", "", "", 1},
		"behind-the-end":   {5, "012", "abcdefghijkl", "fghijkl", 3},
	} {
		v := mustPut(t, direct, name, c.before, "")
		requests := 0
		proxy.Set(func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
			if requests++; requests == 2 {
				v = mustPut(t, direct, name, c.now, v)
			}
			forward.ServeHTTP(w, r)
		})
		o, err := through.Get(t.Context(), name, c.offset, -1)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := io.ReadAll(o.Body)
		if err := errors.Join(err, o.Body.Close()); err != nil {
			t.Fatal(err)
		}
		if string(got) != c.want || o.Version != v || o.Size != int64(len(c.now)) || requests < c.atLeast {
			t.Errorf("%s: %q of version %q, size %d, after %d requests; want %q of %q, %d", name, got, o.Version, o.Size, requests, c.want, v, len(c.now))
		}
	}
}

// Somebody has changed the metadata by hand: a mark that cannot be read is not the same as none.
func TestStampWithoutItsFrameIsNoMissingStamp(t *testing.T) {
	s := aztest.Shared(t)
	client := newClient(t, s.Address(), newContainer(t, s), nil)
	for _, value := range []string{"5", "[5", "5]"} {
		if _, err := client.NewBlockBlobClient("k").Upload(t.Context(), streaming.NopCloser(strings.NewReader("x")), &blockblob.UploadOptions{
			Metadata: map[string]*string{"fencedlock": &value},
		}); err != nil {
			t.Fatal(err)
		}
		b := azbucket.New(client)
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
