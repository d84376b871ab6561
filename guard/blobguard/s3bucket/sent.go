package s3bucket

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/middleware"
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
	// The SDK may read the body once to sign it. What it reads after that goes out, however often a client below it reads.
	sending bool
	whole   bool // a pass of the sending got to the end
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
	switch {
	case s.pos >= s.size:
		s.whole, err = s.sending, nil // and stays so: a later pass that breaks off says nothing about this one
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

// watch tells s when the request is signed and the HTTP client takes over.
func (s *sent) watch(o *s3.Options) {
	begins := middleware.DeserializeMiddlewareFunc("fencedlock: sending begins", func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (
		middleware.DeserializeOutput, middleware.Metadata, error) {
		s.begin()
		return next.HandleDeserialize(ctx, in)
	})
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		return stack.Deserialize.Add(begins, middleware.After)
	})
}

func (s *sent) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sending, s.whole = true, s.whole || s.size == 0
}

// end lets go of the body. It tells whether a request was sent at all; whether one got to its end, so that it may have been
// applied; and whether the body failed.
func (s *sent) end() (begun, whole bool, failed error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.r = nil
	return s.sending, s.whole, s.failed
}
