package s3bucket

import (
	"io"
	"sync"
)

// sent looks at how far a body was read. A server that refuses a large write early hangs up, and its answer gets lost
// among the bytes that were still on their way; it cannot have applied what it has not got the end of.
type sent struct {
	mu     sync.Mutex
	r      io.ReadSeeker
	size   int64
	pos    int64
	failed error // of the body itself
	// How far the last pass went: the SDK may read the body once to sign it, and once more to send it. A seek alone is no
	// pass, so that one after the sending does not make a whole request look like half of one.
	reached int64
}

func (s *sent) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.r.Read(p)
	s.pos += int64(n)
	s.reached = s.pos
	if err != nil && err != io.EOF {
		s.failed = err
	} else if err == io.EOF && s.pos < s.size {
		s.failed, err = io.ErrUnexpectedEOF, io.ErrUnexpectedEOF
	}
	return n, err
}

func (s *sent) Seek(offset int64, whence int) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pos, err := s.r.Seek(offset, whence)
	if err != nil {
		s.failed = err
		return pos, err
	}
	s.pos = pos
	return pos, nil
}

// whole tells whether the last pass got to the end, so that all may have been sent; and whether the body failed.
func (s *sent) whole() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reached >= s.size, s.failed
}
