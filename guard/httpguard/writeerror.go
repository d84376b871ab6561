package httpguard

import (
	"errors"
	"net/http"

	"github.com/fencedlock/fencedlock/guard"
)

// WriteError answers a request with the error of a guard, if err is one or wraps one, and says whether it has. Otherwise
// it writes nothing, and the answer is yours. Call it before anything of the answer was written.
//
//   - [guard.ErrUnknown] becomes 500, also beside one of the others: it is what the client must know.
//   - A [*guard.StaleError] becomes 412, with the resource, the token and the mark.
//   - [guard.ErrNoToken] becomes 428.
//
// [Transport] turns each back into what it was. The text of err itself is not sent, since it may tell what is nobody
// else's business, but for that of the StaleError.
func WriteError(w http.ResponseWriter, err error) bool {
	var se *guard.StaleError
	switch {
	case errors.Is(err, guard.ErrUnknown):
		problem{Type: unknown, Title: "outcome unknown",
			Detail: "the write may or may not have been applied; read the resource to find out"}.write(w)
	case errors.As(err, &se):
		problem{Type: stale, Title: "stale fencing token", Detail: se.Error(),
			Resource: se.Resource, Token: se.Token.String(), Highest: se.Highest.String()}.write(w)
	case errors.Is(err, guard.ErrNoToken):
		missing().write(w)
	default:
		return false
	}
	return true
}

func missing() problem {
	return problem{Type: noToken, Title: "no fencing token",
		Detail: "this request has to carry the token of a lock: send the headers " + TokenHeader + " and " + ResourceHeader + ", one of each"}
}
