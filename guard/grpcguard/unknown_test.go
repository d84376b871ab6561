package grpcguard_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/grpcguard"
)

// unknown fails the test unless err says that nobody knows, and is still a status of the code.
func unknown(t *testing.T, what string, err error, code codes.Code) {
	t.Helper()
	if !errors.Is(err, guard.ErrUnknown) || errors.Is(err, guard.ErrStale) || errors.Is(err, guard.ErrNoToken) {
		t.Errorf("%s: %v; want ErrUnknown", what, err)
	}
	if st, ok := status.FromError(err); !ok || st.Code() != code {
		t.Errorf("%s: %v; want the status %v", what, err, code)
	}
}

func TestALostReplyIsUnknown(t *testing.T) {
	store := newStore(t)
	s := serve(t, nil, store.handle)
	var seen outcomes
	conn := dial(t, s.addr, guarded(&grpcguard.Options{OnOutcome: seen.add})...)
	for _, fault := range []string{"reply", "request"} {
		ctx := metadata.AppendToOutgoingContext(guard.NewContext(t.Context(), "a", 7), faultKey, fault)
		_, err := call(ctx, conn, methodPut, fault)
		unknown(t, fault, err, codes.Unavailable)
		if got := seen.take(); len(got) != 1 || !errors.Is(got[0], guard.ErrUnknown) {
			t.Errorf("%s: outcomes %v", fault, got)
		}
	}
	store.stored(t, "a", "reply")
}

func TestACallThatEndsWhileTheServerWorksIsUnknown(t *testing.T) {
	inside, leave := make(chan struct{}), make(chan struct{})
	s := serve(t, nil, func(ctx context.Context, _ string, _ []byte) ([]byte, error) {
		inside <- struct{}{}
		<-leave
		return nil, nil
	})
	conn := dial(t, s.addr, guarded(nil)...)
	for what, do := range map[string]func(ctx context.Context) error{
		"call":     func(ctx context.Context) error { _, err := call(ctx, conn, methodPut, "v"); return err },
		"stream":   func(ctx context.Context) error { return bulk(ctx, conn, "v") },
		"answered": func(ctx context.Context) error { return each(ctx, conn, "v") },
	} {
		ctx, cancel := context.WithCancelCause(guard.NewContext(t.Context(), "a", 7))
		lost := errors.New("the lock was lost")
		done := make(chan error)
		go func() { done <- do(ctx) }()
		<-inside
		cancel(lost)
		err := <-done
		leave <- struct{}{}
		unknown(t, what, err, codes.Canceled)
		if !errors.Is(err, lost) {
			t.Errorf("%s: %v does not say why", what, err)
		}
	}
}

// A retry policy calls again when a reply is lost, and the caller sees the second try only. gRPC takes such policies from the
// resolver, so the one who calls need not know: https://github.com/grpc/grpc-go/blob/master/Documentation/retry.md
func TestARetryPolicyRunsNoGuardedCallTwice(t *testing.T) {
	policy := grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{"service": "test.KV"}], "retryPolicy": {
		"maxAttempts": 4, "initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`)
	for _, lost := range []bool{true, false} {
		for _, c := range []struct {
			name string
			with []grpc.DialOption
			want int32
		}{{"with grpcguard", guarded(nil), 1}, {"without it", nil, 4}} {
			var runs atomic.Int32
			var s *server
			s = serve(t, &grpcguard.Options{Optional: func(context.Context, string) bool { return true }}, func(ctx context.Context, _ string, _ []byte) ([]byte, error) {
				runs.Add(1)
				if lost {
					s.hangUp(ctx)
				}
				return nil, status.Error(codes.Unavailable, "busy, after having written")
			})
			conn := dial(t, s.addr, append(c.with, policy)...)
			_, err := call(guard.NewContext(t.Context(), "a", 7), conn, methodPut, "") // an empty message, too
			if status.Code(err) != codes.Unavailable {
				t.Fatal(err)
			}
			if c.with != nil {
				unknown(t, c.name, err, codes.Unavailable)
			}
			if n := runs.Load(); n != c.want {
				t.Errorf("%s, connection lost %v: the handler ran %d times; want %d", c.name, lost, n, c.want)
			}
		}
	}
}

func TestWhatHadNoConnectionWasNotSent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	ctx := guard.NewContext(t.Context(), "a", 7)
	conn := dial(t, l.Addr().String(), guarded(nil)...)
	_, err = call(ctx, conn, methodPut, "v")
	for what, err := range map[string]error{"call": err, "stream": bulk(ctx, conn, "v")} {
		if status.Code(err) != codes.Unavailable || errors.Is(err, guard.ErrUnknown) || !strings.Contains(err.Error(), "refused") {
			t.Errorf("%s: %v; want an error that is certain", what, err)
		}
	}

	// An interceptor behind it that passes no options on: nobody tells that the call was not sent.
	deaf := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, _ ...grpc.CallOption) error {
		return invoker(ctx, method, req, reply, cc)
	}
	conn = dial(t, l.Addr().String(), append(guarded(nil), grpc.WithChainUnaryInterceptor(deaf))...)
	_, err = call(ctx, conn, methodPut, "v")
	unknown(t, "a deaf interceptor", err, codes.Unavailable)
}

// The reply is there, and is thrown away by the client's own limit: the write was made.
func TestAReplyThatIsTooLongIsUnknown(t *testing.T) {
	store := newStore(t)
	s := serve(t, nil, func(ctx context.Context, method string, in []byte) ([]byte, error) {
		_, err := store.handle(ctx, method, in)
		return make([]byte, 4096), err
	})
	conn := dial(t, s.addr, append(guarded(nil), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(100)))...)
	_, err := call(guard.NewContext(t.Context(), "a", 7), conn, methodPut, "v")
	unknown(t, "too long", err, codes.ResourceExhausted)
	store.stored(t, "a", "v")
}
