//go:build unix

package blobguard_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/s3bucket"
	"github.com/fencedlock/fencedlock/internal/s3test"
)

// halfway calls a function once, when half of the content has been read for sending.
type halfway struct {
	*bytes.Reader
	armed *atomic.Bool
	do    func()
}

func (h *halfway) Read(p []byte) (int, error) {
	if int64(h.Len()) <= h.Size()/2 && h.armed.CompareAndSwap(true, false) {
		h.do()
	}
	if half := int64(h.Len()) - h.Size()/2; half > 0 && int64(len(p)) > half {
		p = p[:half]
	}
	return h.Reader.Read(p)
}

// A newer holder writes while the upload of the earlier one is half done. Clients that change to another kind of upload for
// large objects send the condition at its beginning, or not at all.
//
// https://github.com/apache/opendal/issues/8198
// https://github.com/awslabs/aws-s3-transfer-manager-rs/pull/163
// https://github.com/googleapis/google-cloud-php/pull/5730
func TestNewerWriteDuringAnUploadOfAnySizeStands(t *testing.T) {
	for _, codec := range []blobguard.Codec{blobguard.Comment("# "), blobguard.Pointer()} {
		for _, size := range []int{0, 1 << 10, 6 << 20, 20 << 20} {
			t.Run(fmt.Sprintf("%s, %d bytes", codec, size), func(t *testing.T) {
				b, bucket := newBucket(t)
				proxy, through := throughProxy(t, bucket)
				opts := &blobguard.Options{Codec: codec}
				g, next := newGuard(t, through, opts), newGuard(t, b, opts)
				mustPut(t, g, "doc", 5, "a")
				proxy.Requests()

				// Before it is sent, the body is read once to be signed: only a read after the request has begun counts.
				var armed, struck atomic.Bool
				proxy.Set(func(r *http.Request) s3test.Fault {
					if r.Method == http.MethodPut && !struck.Load() {
						armed.Store(true)
					}
					return s3test.Pass
				})
				err := g.Put(t.Context(), "doc", 5, &halfway{bytes.NewReader(bytes.Repeat([]byte{'x'}, size)), &armed, func() {
					struck.Store(true)
					alsoPut(t, next, "doc", 6, "next")
				}})
				if size > 1<<20 && !struck.Load() {
					t.Fatal("the newer write did not come in between")
				}
				if !struck.Load() { // sent as a whole before the proxy saw it
					mustPut(t, next, "doc", 6, "next")
				} else if !errors.Is(err, guard.ErrStale) && !errors.Is(err, guard.ErrUnknown) {
					t.Errorf("Put = %v; want ErrStale, or ErrUnknown if the server hung up", err)
				}
				holds(t, next, "doc", "next", 6)
				if err := g.Put(t.Context(), "doc", 5, bytes.NewReader(make([]byte, size))); !errors.Is(err, guard.ErrStale) {
					t.Errorf("a late Put = %v; want ErrStale", err)
				}
				for _, r := range proxy.Requests() {
					if r.URL.Query().Has("uploadId") || r.URL.Query().Has("uploads") || r.Method == http.MethodPost {
						t.Errorf("%s %s: an upload in parts", r.Method, r.URL)
					}
					if r.Method == http.MethodPut && r.Header.Get("If-Match") == "" && r.Header.Get("If-None-Match") != "*" {
						t.Errorf("%s %s has no condition", r.Method, r.URL)
					}
				}
			})
		}
	}
}

// huge claims a size that nobody has.
type huge struct {
	io.ReadSeeker
	size int64
}

func (h huge) Seek(offset int64, whence int) (int64, error) {
	if whence == io.SeekEnd {
		return h.size + offset, nil
	}
	return offset, nil
}

func (h huge) Read(p []byte) (int, error) { return 0, errors.New("nobody was to read this") }

func TestContentBeyondOneUploadIsRefused(t *testing.T) {
	b, bucket := newBucket(t)
	proxy, through := throughProxy(t, bucket)
	for _, codec := range []blobguard.Codec{blobguard.Comment("# "), blobguard.Pointer()} {
		g := newGuard(t, through, &blobguard.Options{Codec: codec})
		proxy.Requests()
		err := g.Put(t.Context(), "doc", 5, huge{size: s3bucket.MaxSize + 1})
		if !errors.Is(err, blobguard.ErrRefused) || errors.Is(err, guard.ErrUnknown) || !strings.Contains(err.Error(), "5368709120") {
			t.Errorf("%s: Put of 5 GiB and a byte = %v; want ErrRefused with the limit", codec, err)
		}
		for _, r := range proxy.Requests() {
			if r.Method == http.MethodPut {
				t.Errorf("%s: something was sent: %s", codec, r.URL)
			}
		}
	}
	if left := keys(t, b, ""); len(left) > 0 {
		t.Errorf("there is %q", left)
	}
}
