package grpcguard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/internal/fencing"
)

// UnaryClientInterceptor sends the resource and the token of the call's context, which is that of a held lock or comes from
// [guard.NewContext], and turns the answers of the server's interceptors back into errors of package guard. nil Options are
// the defaults. Of the Options only OnOutcome is used.
//
// A call with a token ends in one of these ways; status.FromError and status.Code work on each error:
//   - nil: the handler returned no error;
//   - a [*guard.StaleError]: the server has seen a higher token for this resource;
//   - an error that wraps [guard.ErrNoToken]: the token never came to the server, or the context's is none;
//   - one that wraps [guard.ErrUnknown]: the server does not know what became of the write, or the call may have been sent
//     and ended with a code that need not be the handler's: Canceled, Unknown, DeadlineExceeded, ResourceExhausted (a reply
//     too long to be received has it), Internal, Unavailable and DataLoss;
//   - any other: it was not sent, because the context had ended before, because the arguments were refused here, or because
//     gRPC found no connection for it; or the server's code says that it did not do what was asked. Of gRPC's codes, these
//     are InvalidArgument, NotFound, AlreadyExists, PermissionDenied, FailedPrecondition, Aborted, OutOfRange,
//     Unimplemented and Unauthenticated: let your handlers return none of them after a write.
//
// A STALE_TOKEN that speaks of another resource or another token than the call had, or of a mark that is not higher, is not
// believed, and stays the status that it is.
//
// A call whose context carries no token is sent as it is: reads go through the same connection, and only the server knows what
// it guards. If it refuses, the error wraps guard.ErrNoToken and says what was forgotten. A token of 0, such as a reader's, is
// refused here: use a context without it.
//
// gRPC's own retries, also the transparent ones, are off for calls with a token once a message was sent, since a second try's
// answer hides what became of the first. An interceptor that calls again by itself comes before this one in the chain. Those of
// proxies and service meshes have to be off as well, see the package.
func UnaryClientInterceptor(o *Options) grpc.UnaryClientInterceptor {
	opts := o.orDefault()
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, callOpts ...grpc.CallOption) error {
		c := newCall(ctx)
		if !c.carries {
			return c.translate(invoker(ctx, method, req, reply, cc, callOpts...), 1)
		}
		out, err := c.prepare()
		if err == nil {
			var sent sending
			err = invoker(out, method, req, reply, cc, append(callOpts[:len(callOpts):len(callOpts)], sent.watch()...)...)
			err = c.translate(err, sent.messages())
		}
		opts.report(ctx, c.resource, c.tok, err)
		return err
	}
}

// StreamClientInterceptor does for streams what [UnaryClientInterceptor] does for single calls. The token is sent once, when
// the stream begins, and the outcome comes with the stream's end: from RecvMsg. One that is left before that has none.
//
// One outcome for several messages is ErrUnknown unless it is nil or a refusal of the first: once the client has sent a second,
// any other end is ErrUnknown, whatever its code, since the server may have written the first.
func StreamClientInterceptor(o *Options) grpc.StreamClientInterceptor {
	opts := o.orDefault()
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, callOpts ...grpc.CallOption) (grpc.ClientStream, error) {
		c := newCall(ctx)
		out := ctx
		var sent sending
		if c.carries {
			var err error
			if out, err = c.prepare(); err != nil {
				opts.report(ctx, c.resource, c.tok, err)
				return nil, err
			}
			callOpts = append(callOpts[:len(callOpts):len(callOpts)], sent.watch()...)
		}
		cs, err := streamer(out, desc, cc, method, callOpts...)
		if err != nil {
			err = c.translate(err, sent.messages())
			if c.carries {
				opts.report(ctx, c.resource, c.tok, err)
			}
			return nil, err
		}
		s := &clientStream{ClientStream: cs, call: c, desc: desc}
		if c.carries {
			s.report = sync.OnceFunc(func() { opts.report(ctx, c.resource, c.tok, s.end) })
		}
		return s, nil
	}
}

type clientStream struct {
	grpc.ClientStream
	call   *call
	sent   atomic.Int64 // messages
	desc   *grpc.StreamDesc
	report func() // nil: nobody wants to know
	end    error  // how it ended, before report is called
}

func (s *clientStream) SendMsg(m any) error {
	s.sent.Add(1)
	return s.ClientStream.SendMsg(m)
}

func (s *clientStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	ended := err != nil || !s.desc.ServerStreams
	if err != io.EOF {
		err = s.call.translate(err, max(1, s.sent.Load()))
	}
	if ended && s.report != nil {
		if s.end = err; err == io.EOF {
			s.end = nil
		}
		s.report()
	}
	return err
}

// call is what the context says of one call.
type call struct {
	ctx      context.Context
	resource string
	tok      guard.Token
	carries  bool
}

func newCall(ctx context.Context) *call {
	resource, tok, ok := guard.FromContext(ctx)
	return &call{ctx, resource, tok, ok}
}

// prepare returns the context to call with, or says why there must be no call.
func (c *call) prepare() (context.Context, error) {
	if err := guard.Check(c.resource, c.tok, 0); err != nil {
		return nil, notSent(codes.InvalidArgument, fmt.Errorf("the call's context carries what is no token: %w", err))
	}
	if err := c.ctx.Err(); err != nil {
		return nil, notSent(status.FromContextError(err).Code(), fmt.Errorf("the call's context had ended before: %w", because(c.ctx, err)))
	}
	md, _ := metadata.FromOutgoingContext(c.ctx)
	out := c.ctx
	for key, want := range map[string]string{TokenKey: c.tok.String(), ResourceKey: fencing.Escape(c.resource)} {
		switch values := md.Get(key); {
		case len(values) == 0:
			out = metadata.AppendToOutgoingContext(out, key, want)
		case len(values) > 1 || values[0] != want:
			return nil, notSent(codes.InvalidArgument, fmt.Errorf("the metadata %s is set to %.80q, and the call's context says %q; set it in one place", key, values, want))
		}
	}
	return out, nil
}

func because(ctx context.Context, err error) error {
	if reason := context.Cause(ctx); reason != nil && !errors.Is(err, reason) {
		return fmt.Errorf("%w (%w)", err, reason)
	}
	return err
}

// translate turns the end of a call into what it means for a write; sent is how many messages may have been sent.
func (c *call) translate(err error, sent int64) error {
	if err == nil {
		return nil
	}
	s, _ := status.FromError(err)
	if info, ok := refusalOf(s); ok {
		if means := c.refused(s, info.GetReason(), info.GetMetadata()); means != nil {
			return &callError{status: s, is: means}
		}
		if info.GetReason() == fencing.Malformed && s.Code() == codes.InvalidArgument {
			return err // of the first message
		}
	}
	if c.carries && (sent > 1 || sent == 1 && open(s.Code())) {
		return &callError{status: s, cause: because(c.ctx, err), is: fmt.Errorf("grpcguard: %w: the call may have come to the server, and its end does not tell whether the work was done; look before you go on", guard.ErrUnknown)}
	}
	return err
}

// open tells whether a code says nothing about what was done, since gRPC itself may have made it up.
func open(c codes.Code) bool {
	switch c {
	case codes.Canceled, codes.Unknown, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Internal, codes.Unavailable, codes.DataLoss:
		return true
	}
	return false
}

// refused is what the server's refusal means for this call, nil if it speaks of another.
func (c *call) refused(s *status.Status, reason string, info map[string]string) error {
	switch {
	case reason == fencing.Stale && s.Code() == codes.FailedPrecondition:
		highest, err := guard.ParseToken(info[infoHighest])
		if c.carries && err == nil && info[infoResource] == c.resource && info[infoToken] == c.tok.String() && highest > c.tok {
			return &guard.StaleError{Resource: c.resource, Token: c.tok, Highest: highest}
		}
	case reason == fencing.Unknown && s.Code() == codes.Unknown:
		return fmt.Errorf("grpcguard: %w: the server does not know either; look before you go on: %s", guard.ErrUnknown, s.Message())
	case reason == fencing.NoToken && s.Code() == codes.InvalidArgument && c.carries:
		return fmt.Errorf("grpcguard: %w: the server says that it got none, though this client sent one; see what is between them", guard.ErrNoToken)
	case reason == fencing.NoToken && s.Code() == codes.InvalidArgument:
		return fmt.Errorf("grpcguard: %w: the server demands one, and the call's context carries none; use the context of the held lock", guard.ErrNoToken)
	}
	return nil
}

// sending watches what becomes of a call.
type sending struct {
	reported bool // that it ended
	peer     peer.Peer
}

// watch are the options for a call with a token. Its last one ends gRPC's own retries with the first message.
func (s *sending) watch() []grpc.CallOption {
	return []grpc.CallOption{grpc.OnFinish(func(error) { s.reported = true }), grpc.Peer(&s.peer), grpc.MaxRetryRPCBufferSize(0)}
}

// messages is how many may have been sent of a call with one.
func (s *sending) messages() int64 {
	if s.never() {
		return 0
	}
	return 1
}

// never tells that the call cannot have been sent: gRPC was done with it, and had no connection for it. What stands between
// and passes no options on, or does not call at all, proves nothing.
func (s *sending) never() bool { return s.reported && s.peer.Addr == nil }
