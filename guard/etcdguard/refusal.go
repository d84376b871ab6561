package etcdguard

import (
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// code is the gRPC code of an error of the client.
func code(err error) codes.Code {
	var e rpctypes.EtcdError
	if errors.As(err, &e) {
		return e.Code()
	}
	return status.Code(err)
}

// refusal tells whether err is an answer, and the transaction is dealt with. Other errors leave open whether it was applied,
// or will be.
func refusal(err error) bool {
	switch code(err) {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.FailedPrecondition, codes.OutOfRange, codes.PermissionDenied,
		codes.Unauthenticated, codes.Unimplemented, codes.ResourceExhausted:
		return true
	}
	return false
}

// ambiguous tells whether a refusal does not prove that nothing was applied: etcd looks at its quota again after a
// transaction was applied, and gRPC refuses replies that are too long by the same code.
// https://github.com/etcd-io/etcd/blob/main/server/etcdserver/apply/quota.go
func ambiguous(err error) bool {
	return code(err) == codes.ResourceExhausted && !errors.Is(err, rpctypes.ErrTooManyRequests)
}

// repeated tells whether the client has already sent the transaction again and again: it does on these codes, up to
// a hundred times, while the context lives.
func repeated(err error) bool {
	c := code(err)
	return c == codes.Canceled || c == codes.DeadlineExceeded
}
