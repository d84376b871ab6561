package grpcguard

import (
	"errors"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/internal/fencing"
)

// The keys of ErrorInfo's metadata.
const (
	infoResource = "resource"
	infoToken    = "token"
	infoHighest  = "highest"
)

// Error returns the status that a server answers the error of a guard with, if err is one or wraps one, and err itself
// otherwise. The server's interceptors call it on what handlers return.
//
//   - [guard.ErrUnknown] becomes Unknown, also beside one of the others: it is what the client must know.
//   - A [*guard.StaleError] becomes FailedPrecondition, with the resource, the token and the mark.
//   - [guard.ErrNoToken] becomes InvalidArgument.
//
// The client's interceptors turn each back into what it was. The text of err itself is not sent, since it may tell what is
// nobody else's business, but for that of the StaleError.
func Error(err error) error {
	var stale *guard.StaleError
	switch {
	case errors.Is(err, guard.ErrUnknown):
		// Not Unavailable, which clients take for a reason to call again.
		return refusal(codes.Unknown, fencing.Unknown, "the write may or may not have been applied; read the resource to find out", nil)
	case errors.As(err, &stale):
		return refusal(codes.FailedPrecondition, fencing.Stale, stale.Error(), map[string]string{
			infoResource: stale.Resource, infoToken: stale.Token.String(), infoHighest: stale.Highest.String(),
		})
	case errors.Is(err, guard.ErrNoToken):
		return missing()
	}
	return err
}

func missing() error {
	return refusal(codes.InvalidArgument, fencing.NoToken,
		"this call has to carry the token of a lock: send the metadata "+TokenKey+" and "+ResourceKey+", one of each", nil)
}

func refusal(code codes.Code, reason, text string, info map[string]string) error {
	s := status.New(code, text)
	detailed, err := s.WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: fencing.Domain, Metadata: info})
	if err != nil { // a name that is no UTF-8
		return s.Err()
	}
	return detailed.Err()
}

// refusalOf finds what a status refuses a call with.
func refusalOf(s *status.Status) (info *errdetails.ErrorInfo, ok bool) {
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == fencing.Domain {
			return info, true
		}
	}
	return nil, false
}
