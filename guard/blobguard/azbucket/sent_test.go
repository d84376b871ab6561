package azbucket

import (
	"errors"
	"io"
	"testing"

	"github.com/fencedlock/fencedlock/guard/blobguard"
)

// A policy of the client may send a body again. If the first pass got to its end, the blob may be there, though the second
// one could not read the body any more.
func TestBodyThatWasSentToItsEndOnceMayBeStored(t *testing.T) {
	lost, gone := errors.New("no answer"), errors.New("the file is gone")
	for _, c := range []struct {
		readable, passes int
		refused          bool
		failed           error
	}{
		{1, 1, false, nil},
		{1, 2, false, gone},
		{0, 1, true, gone},
	} {
		s, err := newSent(&fading{size: 10, left: c.readable, err: gone})
		if err != nil {
			t.Fatal(err)
		}
		for range c.passes {
			if _, err := s.Seek(0, io.SeekStart); err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, s)
		}
		complete, failed := s.end()
		if failed != c.failed {
			t.Errorf("%+v: the body's error is %v", c, failed)
		}
		if err := classify(lost, complete, failed); !errors.Is(err, lost) || errors.Is(err, blobguard.ErrRefused) != c.refused || errors.Is(err, blobguard.ErrConflict) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// fading can be read as often as left says.
type fading struct {
	size, pos int64
	left      int
	err       error
}

func (f *fading) Read(p []byte) (int, error) {
	if f.left == 0 {
		return 0, f.err
	}
	n := int(min(int64(len(p)), f.size-f.pos))
	if f.pos += int64(n); f.pos == f.size {
		f.left--
	}
	return n, nil
}

func (f *fading) Seek(offset int64, whence int) (int64, error) {
	f.pos = map[int]int64{io.SeekStart: offset, io.SeekEnd: f.size + offset}[whence]
	return f.pos, nil
}
