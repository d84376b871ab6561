package gcsbucket

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"google.golang.org/api/googleapi"

	"github.com/fencedlock/fencedlock/guard/blobguard"
)

// classify tells what an error of an upload, or of a deletion, says about the write: that the condition did not hold, that nothing was
// written, or, for what is left as it is, nothing.
func classify(err error) error {
	switch s := status(err); {
	case err == nil:
		return nil
	case s == http.StatusPreconditionFailed, s == http.StatusConflict:
		// 409 is for requests that met each other.
		return fmt.Errorf("%w: %w", blobguard.ErrConflict, err)
	case s == http.StatusRequestTimeout, s == http.StatusTooManyRequests:
		// From whoever lost patience, which may be a proxy in front of a store that goes on.
		return err
	case s >= 400 && s < 500: // 404 is a missing bucket
		return fmt.Errorf("%w: %w", blobguard.ErrRefused, err)
	case s != 0:
		return err // 5xx: a store, or a proxy, that does not know either
	}
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return fmt.Errorf("%w: the request was not sent: %w", blobguard.ErrRefused, err)
	}
	return err
}

// source is a body, and keeps the error of one that fails or ends early.
type source struct {
	r    io.Reader
	left int64
	err  error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.left -= int64(n)
	if s.left > 0 && err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if s.left > 0 && err != nil {
		s.err = err
	}
	return n, err
}

// classify is for an upload that ended before all was sent. It was not applied, since its checksum is that of the whole.
func (s *source) classify(err error) error {
	if s.err != nil {
		return fmt.Errorf("%w: the body cannot be read: %w", blobguard.ErrRefused, err)
	}
	if err = classify(err); errors.Is(err, blobguard.ErrConflict) || errors.Is(err, blobguard.ErrRefused) {
		return err
	}
	// A server that refuses a large upload early hangs up, and its answer gets lost.
	return fmt.Errorf("%w: the connection ended before all was sent: %w", blobguard.ErrConflict, err)
}

// status is that of the server's answer, 0 without one.
func status(err error) int {
	var e *googleapi.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}
