package azbucket

import (
	"errors"
	"io"
	"sync"
)

// sent is a body that knows how far it was sent: what Azure has not got the end of, it cannot have applied, since the
// length goes before. It lets go of the body when the call ends, while the HTTP client may still be reading.
type sent struct {
	size int64

	mu     sync.Mutex
	r      io.ReadSeeker // nil: the call has ended
	pos    int64
	all    bool  // the end was reached
	failed error // of the body itself
}

var errEnded = errors.New("azbucket: the call has ended")

func newSent(body io.ReadSeeker) (*sent, error) {
	size, err := body.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	_, err = body.Seek(0, io.SeekStart)
	return &sent{r: body, size: size, all: size == 0}, err
}

func (s *sent) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.r == nil {
		return 0, errEnded
	}
	if s.pos >= s.size {
		return 0, io.EOF // not from the body: an error after its last byte would come too late to stop the request
	}
	n, err := s.r.Read(p[:min(int64(len(p)), s.size-s.pos)])
	s.pos += int64(n)
	switch {
	case s.pos >= s.size:
		s.all, err = true, nil
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		s.failed = err
	}
	return n, err
}

func (s *sent) Seek(offset int64, whence int) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.r == nil {
		return 0, errEnded
	}
	pos, err := s.r.Seek(offset, whence)
	if err == nil {
		s.pos = pos
	} else {
		s.failed = err
	}
	return pos, err
}

// Close leaves the body, which is the caller's, open.
func (s *sent) Close() error { return nil }

// end lets go of the body.
func (s *sent) end() (all bool, failed error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.r = nil
	return s.all, s.failed
}
