//go:build unix

package azbucket_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fencedlock/fencedlock/guard/blobguard"
)

// meanwhile does something when half of the body was read.
type meanwhile struct {
	*strings.Reader
	do func()
}

func (m *meanwhile) Read(p []byte) (int, error) {
	if int64(m.Len()) < m.Size()/2 && m.do != nil {
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

// fickle is a body that is another one when it is read than its size said.
type fickle struct {
	io.Reader
	size int64
}

func (f fickle) Seek(offset int64, whence int) (int64, error) {
	if whence == io.SeekEnd {
		offset += f.size
	}
	return offset, nil
}

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
		body io.Reader
		want string
	}{
		"fails-half-way":            {failing{strings.NewReader(whole[:1<<19])}, "refused"},
		"fails-at-once":             {failing{strings.NewReader("")}, "refused"},
		"ends-half-way":             {strings.NewReader(whole[:1<<19]), "refused"},
		"fails-after-its-last-byte": {failing{strings.NewReader(whole)}, "applied"},
		"grows":                     {strings.NewReader(whole + "more"), "applied"},
	} {
		_, err := direct.Put(t.Context(), name, fickle{c.body, int64(len(whole))}, "")
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

// The HTTP client goes on reading for a moment when the answer comes before the end; by then the body is the caller's again.
func TestPutLeavesTheBodyAloneWhenItReturns(t *testing.T) {
	_, through, proxy := newBucket(t)
	proxy.Set(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { w.WriteHeader(http.StatusForbidden) })
	body := strings.NewReader(strings.Repeat("x", 8<<20))
	for range 20 {
		if _, err := through.Put(t.Context(), "k", body, ""); kind(err) != "refused" && kind(err) != "conflict" {
			t.Errorf("Put = %v; want an error that says that it was not applied", err)
		}
		body.Reset(strings.Repeat("x", 8<<20)) // the race detector looks on
	}
}
