package httpguard

import (
	"errors"
	"net"

	"github.com/fencedlock/fencedlock/guard"
)

// lostError is the error of a request that may have been sent and was not answered.
type lostError struct{ err error }

func (e *lostError) Error() string {
	return "httpguard: " + guard.ErrUnknown.Error() + ": no answer came to a request that may have been sent; look before you go on: " + e.err.Error()
}

func (e *lostError) Unwrap() []error { return []error{guard.ErrUnknown, e.err} }

// Timeout lets url.Error, which http.Client makes of it, still tell a timeout.
func (e *lostError) Timeout() bool {
	var t net.Error
	return errors.As(e.err, &t) && t.Timeout()
}
