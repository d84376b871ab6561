package httpguard

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/fencedlock/fencedlock/guard"
)

// followed turns the error of a request that a redirect led to into that of the whole: it speaks of the last request only,
// and what went before may have been applied, as with a POST whose answer is 303. Only 307 and 308 say that nothing
// was done yet.
func followed(req *http.Request, err error) error {
	if err == nil || errors.Is(err, guard.ErrUnknown) || !answered(req) {
		return err
	}
	const text = "httpguard: %w: the answer was a redirect, which does not say whether the write was applied; look before you go on; where it led: "
	if errors.Is(err, guard.ErrStale) || errors.Is(err, guard.ErrNoToken) {
		return fmt.Errorf(text+"%v", guard.ErrUnknown, err) // not wrapped: nobody is to find it
	}
	return fmt.Errorf(text+"%w", guard.ErrUnknown, err)
}

// answered tells whether an earlier request of a chain of redirects had an answer that does not ask to repeat it.
func answered(req *http.Request) bool {
	for req != nil && req.Response != nil {
		if c := req.Response.StatusCode; c != http.StatusTemporaryRedirect && c != http.StatusPermanentRedirect {
			return true
		}
		req = req.Response.Request
	}
	return false
}
