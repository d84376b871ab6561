package lease

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Final reports whether the same request would fail again however often it is
// sent: the right is missing, the space is used up, the client is closed, or the
// error is not one of a request at all.
func Final(err error) bool {
	switch {
	case errors.Is(err, errClientClosed), errors.Is(err, rpctypes.ErrNoSpace), over(err):
		return true
	case errors.Is(err, rpctypes.ErrInvalidAuthToken), errors.Is(err, rpctypes.ErrAuthOldRevision):
		return false // the client fetches a new token for the next attempt
	}
	c, fromEtcd := code(err)
	if !fromEtcd {
		return true
	}
	switch c {
	case codes.PermissionDenied, codes.InvalidArgument, codes.FailedPrecondition, codes.Unimplemented,
		codes.NotFound, codes.AlreadyExists, codes.Unauthenticated, codes.DataLoss:
		return true
	}
	return false
}

// Certain reports whether the request that failed with err was surely not
// applied and never will be: etcd itself refused it. After anything else it may
// land any time later.
func Certain(err error) bool {
	var refused rpctypes.EtcdError
	if !errors.As(err, &refused) {
		return false
	}
	switch refused.Code() {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Unknown, codes.Internal, codes.Aborted, codes.DataLoss:
		return false
	}
	return true
}

func over(err error) bool { return errors.Is(err, ErrExpired) || errors.Is(err, ErrClosed) }

func isLeaseNotFound(err error) bool {
	return errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseNotFound)
}

// code returns the status code of an error that a request came back with, and
// whether it is one.
func code(err error) (codes.Code, bool) {
	var refused rpctypes.EtcdError
	if errors.As(err, &refused) {
		return refused.Code(), true
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errNoAnswer) {
		return codes.DeadlineExceeded, true
	}
	s, ok := status.FromError(err)
	return s.Code(), ok
}
