package grpcguard

import (
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// callError is the end of a call as a guard's error and as a status.
type callError struct {
	status *status.Status
	is     error // what it means
	cause  error // what the call ended with, nil: is says all
}

func (e *callError) Error() string {
	if e.cause == nil {
		return e.is.Error()
	}
	return e.is.Error() + ": " + e.cause.Error()
}

func (e *callError) Unwrap() []error {
	if e.cause == nil {
		return []error{e.is}
	}
	return []error{e.is, e.cause}
}

// GRPCStatus lets package status find the status.
func (e *callError) GRPCStatus() *status.Status { return e.status }

// notSent is the error of a call that was not made.
func notSent(code codes.Code, err error) error {
	err = fmt.Errorf("grpcguard: not sent: %w", err)
	return &callError{status: status.New(code, err.Error()), is: err}
}
