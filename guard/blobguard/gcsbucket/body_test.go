//go:build unix

package gcsbucket_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fencedlock/fencedlock/guard/blobguard"
)

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
