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

// meanwhile does something when half of the body was sent.
type meanwhile struct {
	*strings.Reader
	passes int
	do     func()
}

func (m *meanwhile) Seek(offset int64, whence int) (int64, error) {
	if offset == 0 && whence == io.SeekStart {
		m.passes++
	}
	return m.Reader.Seek(offset, whence)
}

func (m *meanwhile) Read(p []byte) (int, error) {
	if m.passes == 2 && int64(m.Len()) < m.Size()/2 && m.do != nil { // the first pass is for the checksum
		m.do()
		m.do = nil
	}
	return m.Reader.Read(p[:min(len(p), 64<<10)])
}

// WriteTo would go round Read.
func (m *meanwhile) WriteTo(w io.Writer) (int64, error) { return io.Copy(w, struct{ io.Reader }{m}) }

func TestLargeUploadIsRefusedWhenASuccessorWritesMeanwhile(t *testing.T) {
	direct, through, _ := newBucket(t)
	for _, expect := range []blobguard.Version{"", mustPut(t, direct, "replaced", "old", "")} {
		key := map[bool]string{true: "created", false: "replaced"}[expect == ""]
		slow := &meanwhile{Reader: strings.NewReader(strings.Repeat("late ", 2<<20))}
		slow.do = func() { mustPut(t, direct, key, "successor", expect) }
		if _, err := through.Put(t.Context(), key, slow, expect); kind(err) != "conflict" {
			t.Errorf("%s: Put = %v; want ErrConflict", key, err)
		}
		if slow.do != nil {
			t.Errorf("%s: nobody wrote meanwhile", key)
		}
		if c := content(t, direct, key); c != "successor" {
			t.Errorf("%s holds %.20q of %d bytes", key, c, len(c))
		}
	}
}

// A server that refuses a large write at once hangs up, and its answer is lost among the bytes on their way. What it has not
// got the end of, it has not applied: the guard looks again, and has no doubt to tell of.
func TestUploadThatIsCutOffHalfWayIsAConflict(t *testing.T) {
	direct, through, proxy := newBucket(t)
	proxy.Set(func(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
		_, _ = io.CopyN(io.Discard, r.Body, 1<<20)
		panic(http.ErrAbortHandler)
	})
	body := io.NewSectionReader(zeroes{}, 0, 64<<20) // more than the buffers on the way hold
	if _, err := through.Put(t.Context(), "k", body, ""); kind(err) != "conflict" {
		t.Errorf("Put = %v; want ErrConflict", err)
	}
	if _, err := direct.Get(t.Context(), "k", 0, 0); !errors.Is(err, blobguard.ErrNotExist) {
		t.Errorf("something was stored: %v", err)
	}
}

// fickle is another body when it is read for the second time.
type fickle struct {
	*strings.Reader
	passes int
	then   io.Reader
}

func (f *fickle) Seek(offset int64, whence int) (int64, error) {
	if offset == 0 && whence == io.SeekStart {
		f.passes++
	}
	return f.Reader.Seek(offset, whence)
}

func (f *fickle) Read(p []byte) (int, error) {
	if f.passes == 2 {
		return f.then.Read(p)
	}
	return f.Reader.Read(p)
}

func (f *fickle) WriteTo(w io.Writer) (int64, error) { return io.Copy(w, struct{ io.Reader }{f}) }

type failing struct{ io.Reader }

func (f failing) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	if err == io.EOF {
		err = errors.New("disk failure")
	}
	return n, err
}

// A part of a body must never be stored as the whole, and an error after the last byte comes too late.
func TestBodyThatFailsOrChangesWhileItIsSentIsNotStored(t *testing.T) {
	direct, _, _ := newBucket(t)
	whole := strings.Repeat("x", 1<<20)
	for name, c := range map[string]struct {
		then io.Reader
		want string
	}{
		"fails half-way":            {failing{strings.NewReader(whole[:1<<19])}, "refused"},
		"fails at once":             {failing{strings.NewReader("")}, "refused"},
		"ends half-way":             {strings.NewReader(whole[:1<<19]), "refused"},
		"changes":                   {strings.NewReader("y" + whole[1:]), "refused"},
		"fails after its last byte": {failing{strings.NewReader(whole)}, "applied"},
		"grows":                     {strings.NewReader(whole + "more"), "applied"},
	} {
		_, err := direct.Put(t.Context(), name, &fickle{Reader: strings.NewReader(whole), then: c.then}, "")
		if kind(err) != c.want {
			t.Errorf("%s: %v; want %s", name, err, c.want)
		}
		if c.want == "applied" {
			if got := content(t, direct, name); got != whole {
				t.Errorf("%s: %.20q of %d bytes was stored", name, got, len(got))
			}
		} else if _, err := direct.Get(t.Context(), name, 0, 0); !errors.Is(err, blobguard.ErrNotExist) {
			t.Errorf("%s: something was stored: %v", name, err)
		}
	}
}
