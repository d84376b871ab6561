//go:build unix

package gcsbucket_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"cloud.google.com/go/storage"

	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/gcsbucket"
	"github.com/fencedlock/fencedlock/internal/gcstest"
	"github.com/fencedlock/fencedlock/internal/httpfault"
)

// newBucket returns an empty bucket on the shared server, and the same one behind a proxy.
func newBucket(t testing.TB) (direct, through *gcsbucket.Bucket, proxy *httpfault.Proxy) {
	t.Helper()
	s := gcstest.Shared(t)
	name := newName(t, s)
	proxy = httpfault.New(t, s.Address())
	return gcsbucket.New(newClient(t, s.Address()), name), gcsbucket.New(newClient(t, proxy.Address), name), proxy
}

func mustPut(t testing.TB, b blobguard.Bucket, key, content string, expect blobguard.Version) blobguard.Version {
	t.Helper()
	v, err := b.Put(t.Context(), key, strings.NewReader(content), expect)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func content(t testing.TB, b blobguard.Bucket, key string) string {
	t.Helper()
	o, err := b.Get(t.Context(), key, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	c, err := io.ReadAll(o.Body)
	if err := errors.Join(err, o.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return string(c)
}

// kind is what an error of Put says about the write.
func kind(err error) string {
	switch conflict, refused := errors.Is(err, blobguard.ErrConflict), errors.Is(err, blobguard.ErrRefused); {
	case err == nil:
		return "applied"
	case conflict && refused:
		return "conflict and refused"
	case conflict:
		return "conflict"
	case refused:
		return "refused"
	}
	return "open"
}

// answer is a fault that answers without asking the server.
func answer(status int) httpfault.Fault {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		_, _ = io.Copy(io.Discard, r.Body)
		http.Error(w, "no", status)
	}
}

// gatewayError is a write that was applied, and a proxy on the way back that lost patience.
func gatewayError(w http.ResponseWriter, r *http.Request, forward http.Handler) {
	forward.ServeHTTP(httptest.NewRecorder(), r)
	http.Error(w, "no", http.StatusBadGateway)
}

func TestPutSaysWhatIsKnownOfTheWrite(t *testing.T) {
	direct, through, proxy := newBucket(t)
	faults := map[string]struct {
		fault httpfault.Fault
		want  string
	}{
		"reply lost":         {httpfault.LoseReply, "open"},
		"request lost":       {httpfault.LoseRequest, "open"},
		"502 though applied": {gatewayError, "open"},
	}
	for status, want := range map[int]string{
		400: "refused", 401: "refused", 403: "refused", 404: "refused", 405: "refused", 413: "refused",
		409: "conflict", 412: "conflict", 408: "open", 429: "open", 500: "open", 502: "open", 503: "open", 504: "open",
	} {
		faults[fmt.Sprint("status ", status)] = struct {
			fault httpfault.Fault
			want  string
		}{answer(status), want}
	}
	for name, c := range faults {
		key := "said " + name
		for _, expect := range []blobguard.Version{"", mustPut(t, direct, key+", replaced", "old", "")} {
			if expect != "" {
				key += ", replaced"
			}
			proxy.Set(c.fault)
			_, err := through.Put(t.Context(), key, strings.NewReader("new"), expect)
			proxy.Set(nil)
			if got := kind(err); got != c.want {
				t.Errorf("%s: Put = %v, which is %s; want %s", key, err, got, c.want)
			}
		}
	}
}

func TestPutThatWasNeverSentIsRefused(t *testing.T) {
	direct, through, proxy := newBucket(t)
	var requests atomic.Int64
	proxy.Set(func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		requests.Add(1)
		forward.ServeHTTP(w, r)
	})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := through.Put(ended, "k", strings.NewReader("x"), "")
	if kind(err) != "refused" || !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v; want ErrRefused and context.Canceled", err)
	}
	for _, v := range []blobguard.Version{"0", "-1", "+1", "01", "*", "x", "1.5", "99999999999999999999"} {
		if _, err := through.Put(t.Context(), "k", strings.NewReader("x"), v); kind(err) != "refused" {
			t.Errorf("version %q: %v; want ErrRefused", v, err)
		}
	}
	if _, err := through.Put(t.Context(), "k", io.NewSectionReader(zeroes{}, 0, gcsbucket.MaxSize+1), ""); kind(err) != "refused" || !strings.Contains(err.Error(), "split the data") {
		t.Errorf("too large: %v; want ErrRefused", err)
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("%d requests came", n)
	}

	l, err := net.Listen("tcp", "127.0.0.1:0") // a port that nobody answers
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	nobody := gcsbucket.New(newClient(t, l.Addr().String()), "bucket")
	if _, err := nobody.Put(t.Context(), "k", strings.NewReader("x"), ""); kind(err) != "refused" {
		t.Errorf("nobody there: %v; want ErrRefused", err)
	}
	if _, err := direct.Get(t.Context(), "k", 0, -1); !errors.Is(err, blobguard.ErrNotExist) {
		t.Errorf("something was written: %v", err)
	}
}

type zeroes struct{}

func (zeroes) ReadAt(p []byte, _ int64) (int, error) { return len(p), nil }

// The library tries again by itself what it takes for repeatable, among it writes on condition. Its second request finds
// what the first one wrote, and the answer to that is no answer to the first.
//
// https://github.com/cdapio/cdap/pull/15539
func TestPutSendsOneRequest(t *testing.T) {
	s := gcstest.Shared(t)
	name := newName(t, s)
	proxy := httpfault.New(t, s.Address())
	client := newClient(t, proxy.Address)
	client.SetRetry(storage.WithPolicy(storage.RetryAlways)) // the user's choice for all else
	b := gcsbucket.New(client, name)
	for fault, f := range map[string]httpfault.Fault{"502": gatewayError, "503": answer(503), "reply lost": httpfault.LoseReply} {
		for _, size := range []int{0, 10, 17 << 20} {
			var n atomic.Int64
			proxy.Set(httpfault.Only(func(r *http.Request) bool { return gcstest.Upload(r) && n.Add(1) == 1 }, f))
			_, err := b.Put(t.Context(), fmt.Sprint(fault, size), strings.NewReader(strings.Repeat("x", size)), "")
			proxy.Set(nil)
			if kind(err) != "open" || n.Load() != 1 {
				t.Errorf("%s, %d bytes: %d uploads, and %v; want one, and an error that leaves it open", fault, size, n.Load(), err)
			}
		}
	}

	// The control: the library left to itself takes its own write for another's.
	var n atomic.Int64
	proxy.Set(httpfault.Only(func(r *http.Request) bool { return gcstest.Upload(r) && n.Add(1) == 1 }, gatewayError))
	w := client.Bucket(name).Object("plain").If(storage.Conditions{DoesNotExist: true}).NewWriter(t.Context())
	_, err := io.WriteString(w, "x")
	if err = errors.Join(err, w.Close()); err == nil || n.Load() < 2 {
		t.Errorf("the library's own write: %d uploads, %v; want a second one that fails, or this test shows nothing", n.Load(), err)
	}
}

// Some libraries send the condition with small writes only, or only with the request that opens a large one.
//
// https://github.com/googleapis/google-cloud-php/pull/5730
// https://github.com/apache/opendal/issues/8198
func TestEveryUploadCarriesItsConditionToTheEnd(t *testing.T) {
	_, through, proxy := newBucket(t)
	var seen []url.Values
	proxy.Set(func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		if gcstest.Upload(r) {
			seen = append(seen, r.URL.Query())
		}
		forward.ServeHTTP(w, r)
	})
	for _, size := range []int{0, 1 << 10, 6 << 20, 17 << 20} {
		for _, expect := range []blobguard.Version{"", "1"} {
			seen = nil
			_, err := through.Put(t.Context(), fmt.Sprint("size ", size), strings.NewReader(strings.Repeat("x", size)), expect)
			if want := map[bool]string{true: "applied", false: "conflict"}[expect == ""]; kind(err) != want {
				t.Errorf("%d bytes on %q: %v; want %s", size, expect, err, want)
			}
			want := "0"
			if expect != "" {
				want = string(expect)
			}
			if len(seen) != 1 || seen[0].Get("ifGenerationMatch") != want || seen[0].Get("uploadType") != "multipart" {
				t.Errorf("%d bytes on %q: uploads %v; want a single one with ifGenerationMatch=%s", size, expect, seen, want)
			}
		}
	}
}
