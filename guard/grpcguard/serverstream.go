package grpcguard

import (
	"context"
	"fmt"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fencedlock/fencedlock/guard/internal/fencing"
)

type serverStream struct {
	grpc.ServerStream
	a      *admission
	handed atomic.Int64 // messages, to the handler
}

func (s *serverStream) Context() context.Context { return s.a.ctx }

func (s *serverStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	if err := s.a.fits(m); err != nil {
		return s.refused(err, 0)
	}
	s.handed.Add(1)
	return nil
}

// refused returns what to answer in place of a refusal that speaks of one message, of which the handler has had so many, 0 or
// 1: itself only if the handler had no other, since that may have been written.
func (s *serverStream) refused(err error, had int64) error {
	earlier := s.handed.Load() - had
	if !s.a.carries || earlier <= 0 {
		return err
	}
	st, _ := status.FromError(err)
	if info, ok := refusalOf(st); !ok || info.GetReason() == fencing.Unknown {
		return err
	}
	return refusal(codes.Unknown, fencing.Unknown, fmt.Sprintf("a message was refused (%s), but of those before it on the stream, %d, "+
		"each may or may not have been written; read the resource to find out", st.Message(), earlier), nil)
}
