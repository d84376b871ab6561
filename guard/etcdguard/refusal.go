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

// refusal tells whether err is an answer to the last sending, so that sending again is of no use. It does not prove that
// nothing was applied: see attempts.settle; and etcd looks at its quota again after a transaction was applied, and gRPC
// refuses replies that are too long by the code of requests that are.
// https://github.com/etcd-io/etcd/blob/main/server/etcdserver/apply/quota.go
func refusal(err error) bool {
	switch code(err) {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.FailedPrecondition, codes.OutOfRange, codes.PermissionDenied,
		codes.Unauthenticated, codes.Unimplemented, codes.ResourceExhausted:
		return true
	}
	return false
}

// repeated tells whether the client has already sent the transaction again and again: it does on these codes, up to
// a hundred times, while the context lives.
func repeated(err error) bool {
	c := code(err)
	return c == codes.Canceled || c == codes.DeadlineExceeded
}
