//go:build unix

package s3bucket_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/s3bucket"
	"github.com/fencedlock/fencedlock/internal/s3test"
)

// ailing is a body of a size, which has this text only and then fails with err; with its last bytes if they are asked for.
type ailing struct {
	text string
	size int64
	err  error
	pos  int64
}

func (a *ailing) Read(p []byte) (int, error) {
	n := copy(p, a.text[a.pos:])
	a.pos += int64(n)
	if a.pos == int64(len(a.text)) {
		return n, a.err
	}
	return n, nil
}

func (a *ailing) Seek(offset int64, whence int) (int64, error) {
	if whence == io.SeekEnd {
		return a.size, nil
	}
	a.pos = min(offset, int64(len(a.text)))
	return offset, nil
}

// A part of a body must never be stored as the whole, and an error that comes with the last byte comes too late to stop it.
func TestBodyThatFailsIsNotStored(t *testing.T) {
	s := s3test.Shared(t)
	b := s3bucket.New(s3test.NewClient(t, s.Address()), s.Bucket(t))
	whole := strings.Repeat("x", 1<<20)
	broken := errors.New("disk failure")
	for name, c := range map[string]struct {
		body    ailing
		applied bool
	}{
		"fails-half-way":           {ailing{text: whole[:1<<19], err: broken}, false},
		"fails-at-once":            {ailing{err: broken}, false},
		"ends-half-way":            {ailing{text: whole[:1<<19], err: io.EOF}, false},
		"fails-with-its-last-byte": {ailing{text: whole, err: broken}, true},
		"grows":                    {ailing{text: whole + "more", err: io.EOF}, true},
	} {
		c.body.size = int64(len(whole))
		_, err := b.Put(t.Context(), name, &c.body, "")
		if c.applied {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if !errors.Is(err, blobguard.ErrRefused) {
			t.Errorf("%s: %v; want ErrRefused", name, err)
		}
		if _, err := b.Get(t.Context(), name, 0, 0); !errors.Is(err, blobguard.ErrNotExist) {
			t.Errorf("%s: something was stored: %v", name, err)
		}
	}
}
