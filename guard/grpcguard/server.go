package grpcguard

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/internal/fencing"
)

// Options are the choices of the interceptors. The zero value of each field is its default.
type Options struct {
	// Resource returns the name of the resource that a request to the method, "/package.Service/Method", writes. A request
	// whose token is for another resource is refused with InvalidArgument: a mistake of the client, whose lock protects
	// something else. On a stream it is asked for each message that comes, which is then not handed on. "" is refused in the same
	// way: no token is for it. It is called for every method with a token, whatever its request's type, and a panic in it ends
	// the server's process: assert the type with a check. Servers only.
	//
	// nil: the client's word counts. Then the handler must take what it writes from the resource in the context, and not
	// from the request, or a client with any lock at all writes there, and the guard compares its token with another mark.
	Resource func(method string, req any) string

	// Optional tells which methods may be called without a token, such as those that only read, health checks and
	// reflection: those for which it returns true pass if they carry neither key. What they carry has to be right all the
	// same. nil: none. Servers only.
	Optional func(ctx context.Context, method string) bool

	// OnOutcome is called once for each call. A server calls it with the error that the handler returned, or with that of
	// the refusal, where resource and tok are empty if they could not be read, and not for what Optional let pass. A client
	// calls it for the calls that carry a token, with the error that it is about to return, for a stream when its end is
	// received. It must return quickly: the caller waits. nil: nothing is called.
	OnOutcome func(ctx context.Context, resource string, tok guard.Token, err error)
}

func (o *Options) orDefault() Options {
	if o == nil {
		return Options{}
	}
	return *o
}

func (o *Options) report(ctx context.Context, resource string, tok guard.Token, err error) {
	if o.OnOutcome != nil {
		o.OnOutcome(ctx, resource, tok, err)
	}
}

// UnaryServerInterceptor hands a call on to its handler if it carries one resource and one token, each in its only form, and
// puts them into the call's context, where [guard.FromContext] finds them. It answers others with InvalidArgument. What
// the handler returns goes through [Error]. nil Options are the defaults.
//
// It reads and checks the form, and knows no mark. Whether the token is too old is for the guard in the handler's storage
// to say, in the step that writes.
//
// A handler's error that is none of a guard goes to the client as it is; without a status it becomes Unknown, and the client
// takes it for [guard.ErrUnknown]. To say that nothing was written, answer with a code that gRPC's client never makes up:
// InvalidArgument, NotFound, AlreadyExists, FailedPrecondition, Aborted, OutOfRange.
func UnaryServerInterceptor(o *Options) grpc.UnaryServerInterceptor {
	opts := o.orDefault()
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		a, err := opts.admit(ctx, info.FullMethod)
		if err != nil {
			return nil, err
		}
		if err := a.fits(req); err != nil {
			opts.report(ctx, a.resource, a.tok, err)
			return nil, err
		}
		resp, err := handler(a.ctx, req)
		if a.carries {
			opts.report(ctx, a.resource, a.tok, err)
		}
		if err != nil {
			return nil, Error(err)
		}
		return resp, nil
	}
}

// StreamServerInterceptor does for streams what [UnaryServerInterceptor] does for single calls. A stream has one token, that
// of its beginning, for all that comes on it.
//
// A refusal speaks of one message, and those before it may have been written. So from the second message on, whatever would
// be a refusal goes to the client as OUTCOME_UNKNOWN, with the reason in its text. A client that has to know sends one write on
// a stream, or one message with all of them, or has them written in one transaction when the stream's end has come.
func StreamServerInterceptor(o *Options) grpc.StreamServerInterceptor {
	opts := o.orDefault()
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		a, err := opts.admit(ss.Context(), info.FullMethod)
		if err != nil {
			return err
		}
		s := &serverStream{ServerStream: ss, a: a}
		err = handler(srv, s)
		if a.carries {
			opts.report(ss.Context(), a.resource, a.tok, err)
		}
		return s.refused(Error(err), 1)
	}
}

// admission is a call that may go on.
type admission struct {
	ctx      context.Context
	opts     *Options
	method   string
	carries  bool // a token
	resource string
	tok      guard.Token
}

func (o *Options) admit(ctx context.Context, method string) (*admission, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	tokens, resources := md.Get(TokenKey), md.Get(ResourceKey)
	if len(tokens)+len(resources) == 0 && o.Optional != nil && o.Optional(ctx, method) {
		return &admission{ctx: ctx, opts: o, method: method}, nil
	}
	resource, tok, err := fencing.Parse(tokens, resources)
	if err != nil {
		o.report(ctx, "", 0, fmt.Errorf("grpcguard: %w", err))
		if errors.Is(err, fencing.ErrMissing) {
			return nil, missing()
		}
		return nil, refusal(codes.InvalidArgument, fencing.Malformed, "grpcguard: "+err.Error(), nil)
	}
	return &admission{guard.NewContext(ctx, resource, tok), o, method, true, resource, tok}, nil
}

// fits returns the refusal of a request that writes something else than the token is for.
func (a *admission) fits(req any) error {
	if !a.carries || a.opts.Resource == nil {
		return nil
	}
	var text string
	switch writes := a.opts.Resource(a.method, req); writes {
	case a.resource:
		return nil
	case "":
		text = fmt.Sprintf("grpcguard: the server named no resource that a %T to %s writes: its Options.Resource returned \"\"", req, a.method)
	default:
		text = fmt.Sprintf("grpcguard: the token is for the resource %.128q, and the request writes %.128q", a.resource, writes)
	}
	return refusal(codes.InvalidArgument, fencing.Malformed, text, nil)
}
