package s3bucket

import (
	"errors"
	"io"
	"sync"
)

// sent looks at how far a body was read. A server that refuses a large write early hangs up, and its answer gets lost
// among the bytes that were still on their way; it cannot have applied what it has not got the end of. It lets go of the
// body when the call ends, while the HTTP client may still be reading.
type sent struct {
	size int64

	mu     sync.Mutex
	r      io.ReadSeeker // nil: the call has ended
	pos    int64
	failed error // of the body itself
	// How far the last pass went: the SDK may read the body once to sign it, and once more to send it. A seek alone is no
	// pass, so that one after the sending does not make a whole request look like half of one.
	reached int64
}

var errEnded = errors.New("s3bucket: the call has ended")

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
	s.reached = s.pos
	switch {
	case s.pos >= s.size:
		err = nil
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
	if err != nil {
		s.failed = err
		return pos, err
	}
	s.pos = pos
	return pos, nil
}

// end lets go of the body. It tells whether the last pass got to the end, so that all may have been sent; and whether the
// body failed.
func (s *sent) end() (whole bool, failed error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.r = nil
	return s.reached >= s.size, s.failed
}
