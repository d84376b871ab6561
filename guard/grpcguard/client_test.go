package grpcguard_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/grpcguard"
)

// Each error of a guard arrives as what it was, whatever the resource is called, and is a status still.
func TestErrorsGoThereAndBack(t *testing.T) {
	var answer error
	s := serve(t, nil, func(ctx context.Context, _ string, _ []byte) ([]byte, error) {
		resource, tok, _ := guard.FromContext(ctx)
		if answer == nil {
			return nil, &guard.StaleError{Resource: resource, Token: tok, Highest: math.MaxInt64}
		}
		return nil, answer
	})
	conn := dial(t, s.addr, guarded(nil)...)
	calls := map[string]func(ctx context.Context) error{
		"call":     func(ctx context.Context) error { _, err := call(ctx, conn, methodPut, "v"); return err },
		"stream":   func(ctx context.Context) error { return bulk(ctx, conn, "v") },
		"answered": func(ctx context.Context) error { return each(ctx, conn, "v") },
	}
	for what, do := range calls {
		answer = nil
		for _, name := range []string{"account/1", "permit#3", "a, b", "100%", "Ω 鍵 🔒\n\"", strings.Repeat("\x01", 512), strings.Repeat("é", 256)} {
			for _, tok := range []guard.Token{1, 1<<53 + 1, math.MaxInt64 - 1} {
				err := do(guard.NewContext(t.Context(), name, tok))
				var stale *guard.StaleError
				if !errors.As(err, &stale) || *stale != (guard.StaleError{Resource: name, Token: tok, Highest: math.MaxInt64}) || errors.Is(err, guard.ErrUnknown) {
					t.Errorf("%s, %.20q, %d: %v", what, name, int64(tok), err)
				}
				if st, ok := status.FromError(err); !ok || st.Code() != codes.FailedPrecondition || reason(err) != "STALE_TOKEN" {
					t.Errorf("%s: %v is no status any more", what, err)
				}
			}
		}
		for want, code := range map[error]codes.Code{guard.ErrUnknown: codes.Unknown, guard.ErrNoToken: codes.InvalidArgument} {
			answer = want
			err := do(guard.NewContext(t.Context(), "a", 7))
			if !errors.Is(err, want) || errors.Is(err, guard.ErrStale) || errors.Is(err, guard.ErrUnknown) != (want == guard.ErrUnknown) || status.Code(err) != code {
				t.Errorf("%s: %v arrived as %v", what, want, err)
			}
		}
		// What a server refuses by a code that gRPC does not make up was not done, and stays as it is.
		answer = status.Error(codes.NotFound, "no account")
		if err := do(guard.NewContext(t.Context(), "a", 7)); status.Code(err) != codes.NotFound || errors.Is(err, guard.ErrUnknown) {
			t.Errorf("%s: %v", what, err)
		}
		answer = errors.New("who knows how far it came")
		// Its own error does answer the call, and does not tell what was done.
		if err := do(guard.NewContext(t.Context(), "a", 7)); status.Code(err) != codes.Unknown || !errors.Is(err, guard.ErrUnknown) || strings.Contains(err.Error(), "not answered") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestWhatCannotBeRightIsNotSent(t *testing.T) {
	ended, end := context.WithCancelCause(guard.NewContext(t.Context(), "a", 7))
	end(errors.New("the lock was lost"))
	held := guard.NewContext(t.Context(), "a", 7)
	s := serve(t, nil, func(context.Context, string, []byte) ([]byte, error) { t.Error("a call arrived"); return nil, nil })
	var seen outcomes
	conn := dial(t, s.addr, guarded(&grpcguard.Options{OnOutcome: seen.add})...)
	for _, c := range []struct {
		what string
		ctx  context.Context
		is   error
		code codes.Code
		says string
	}{
		{"token 0", guard.NewContext(t.Context(), "a", 0), guard.ErrNoToken, codes.InvalidArgument, "no token"},
		{"a negative token", guard.NewContext(t.Context(), "a", -1), guard.ErrNoToken, codes.InvalidArgument, "no token"},
		{"no name", guard.NewContext(t.Context(), "", 7), nil, codes.InvalidArgument, "empty name"},
		{"a context that has ended", ended, context.Canceled, codes.Canceled, "the lock was lost"},
		{"another token by hand", metadata.AppendToOutgoingContext(held, "Fencing-Token", "8"), nil, codes.InvalidArgument, "fencing-token"},
		{"a second token by hand", metadata.AppendToOutgoingContext(held, "fencing-token", "7", "fencing-token", "7"), nil, codes.InvalidArgument, "fencing-token"},
		{"another resource by hand", metadata.AppendToOutgoingContext(held, "fencing-resource", "b"), nil, codes.InvalidArgument, "fencing-resource"},
	} {
		_, err := call(c.ctx, conn, methodPut, "v")
		for what, err := range map[string]error{"call": err, "stream": bulk(c.ctx, conn, "v")} {
			if err == nil || !strings.HasPrefix(err.Error(), "grpcguard: ") || !strings.Contains(err.Error(), c.says) || c.is != nil && !errors.Is(err, c.is) || errors.Is(err, guard.ErrUnknown) || status.Code(err) != c.code {
				t.Errorf("%s, %s: %v", c.what, what, err)
			}
		}
		if got := seen.take(); len(got) != 2 || got[0] == nil || got[1] == nil {
			t.Errorf("%s: outcomes %v", c.what, got)
		}
	}
}

func TestTheSameTokenByHandIsSentOnce(t *testing.T) {
	s := serve(t, nil, admitting)
	ctx := metadata.AppendToOutgoingContext(guard.NewContext(t.Context(), "a b", 7), "fencing-token", "7")
	if got, err := call(ctx, dial(t, s.addr, guarded(nil)...), methodPut, "v"); got != `"a b" 7 true` || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}

// A server that demands a token says so, and the client learns what it forgot.
func TestACallWithoutATokenIsSentAndTheRefusalNamesTheContext(t *testing.T) {
	s := serve(t, &grpcguard.Options{Optional: readers}, newStore(t).handle)
	var seen outcomes
	conn := dial(t, s.addr, guarded(&grpcguard.Options{OnOutcome: seen.add})...)
	_, err := call(t.Context(), conn, methodPut, "v")
	for what, err := range map[string]error{"call": err, "stream": bulk(t.Context(), conn, "v")} {
		if !errors.Is(err, guard.ErrNoToken) || !strings.Contains(err.Error(), "context of the held lock") || status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := call(t.Context(), conn, methodRead, "a"); err != nil {
		t.Errorf("a read: %v", err)
	}
	if got := seen.take(); len(got) > 0 {
		t.Errorf("outcomes without a token: %v", got)
	}
}

// Servers have preconditions of their own. ErrStale is what was said by one that has seen a higher token for this resource.
func TestOnlyARefusalOfThisVeryCallIsBelieved(t *testing.T) {
	var answer error
	s := serve(t, nil, func(context.Context, string, []byte) ([]byte, error) { return nil, answer })
	conn := dial(t, s.addr, guarded(nil)...)
	with := func(code codes.Code, change func(*errdetails.ErrorInfo)) error {
		info := &errdetails.ErrorInfo{Reason: "STALE_TOKEN", Domain: "github.com/fencedlock/fencedlock", Metadata: map[string]string{"resource": "a", "token": "7", "highest": "9"}}
		change(info)
		st, err := status.New(code, "refused").WithDetails(info)
		if err != nil {
			t.Fatal(err)
		}
		return st.Err()
	}
	set := func(key, value string) func(*errdetails.ErrorInfo) {
		return func(i *errdetails.ErrorInfo) { i.Metadata[key] = value }
	}
	ctx := guard.NewContext(t.Context(), "a", 7)
	answer = with(codes.FailedPrecondition, func(*errdetails.ErrorInfo) {})
	if _, err := call(ctx, conn, methodPut, "v"); !errors.Is(err, guard.ErrStale) {
		t.Fatal(err)
	}
	if _, err := call(metadata.AppendToOutgoingContext(t.Context(), "fencing-token", "7", "fencing-resource", "a"), conn, methodPut, "v"); errors.Is(err, guard.ErrStale) {
		t.Errorf("believed without a token in the context: %v", err)
	}
	for what, err := range map[string]error{
		"no detail":         status.Error(codes.FailedPrecondition, "stale token"),
		"another domain":    with(codes.FailedPrecondition, func(i *errdetails.ErrorInfo) { i.Domain = "example.com" }),
		"another reason":    with(codes.FailedPrecondition, func(i *errdetails.ErrorInfo) { i.Reason = "STALE" }),
		"another code":      with(codes.Aborted, func(*errdetails.ErrorInfo) {}),
		"no metadata":       with(codes.FailedPrecondition, func(i *errdetails.ErrorInfo) { i.Metadata = nil }),
		"another resource":  with(codes.FailedPrecondition, set("resource", "b")),
		"another token":     with(codes.FailedPrecondition, set("token", "6")),
		"a lower mark":      with(codes.FailedPrecondition, set("highest", "6")),
		"an equal mark":     with(codes.FailedPrecondition, set("highest", "7")),
		"a mark of no form": with(codes.FailedPrecondition, set("highest", "9.0")),
		"a mark beyond all": with(codes.FailedPrecondition, set("highest", "9223372036854775808")),
	} {
		answer = err
		_, got := call(ctx, conn, methodPut, "v")
		if errors.Is(got, guard.ErrStale) || errors.Is(got, guard.ErrUnknown) || status.Code(got) != status.Code(err) {
			t.Errorf("%s: %v", what, got)
		}
	}
}

func TestOutcomesOfCallsAndStreams(t *testing.T) {
	s := serve(t, nil, newStore(t).handle)
	var seen outcomes
	conn := dial(t, s.addr, guarded(&grpcguard.Options{OnOutcome: seen.add})...)
	for _, c := range []struct {
		tok  guard.Token
		want error
	}{{9, nil}, {7, guard.ErrStale}} {
		ctx := guard.NewContext(t.Context(), "a", c.tok)
		_, err := call(ctx, conn, methodPut, "v")
		for what, err := range map[string]error{"call": err, "stream": bulk(ctx, conn, "v", "w"), "answered": each(ctx, conn, "v", "w")} {
			if !errors.Is(err, c.want) {
				t.Errorf("%s with %d: %v", what, int64(c.tok), err)
			}
		}
		got := seen.take()
		if len(got) != 3 {
			t.Errorf("with %d: outcomes %v; want one of each", int64(c.tok), got)
		}
		for _, err := range got {
			if !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("with %d: outcome %v", int64(c.tok), err)
			}
		}
	}
}

// Whatever a server answers: a higher mark for this very call, or no ErrStale.
func FuzzAnswer(f *testing.F) {
	f.Add(uint32(codes.FailedPrecondition), "STALE_TOKEN", "a", "7", "9")
	f.Add(uint32(codes.Unknown), "OUTCOME_UNKNOWN", "", "", "")
	f.Add(uint32(codes.InvalidArgument), "NO_TOKEN", "", "", "")
	f.Add(uint32(codes.Unavailable), "", "", "", "-1")
	intercept := grpcguard.UnaryClientInterceptor(nil)
	f.Fuzz(func(t *testing.T, code uint32, reason, resource, token, highest string) {
		answer := status.New(codes.Code(code), "x")
		if st, err := answer.WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: "github.com/fencedlock/fencedlock",
			Metadata: map[string]string{"resource": resource, "token": token, "highest": highest}}); err == nil {
			answer = st
		}
		err := intercept(guard.NewContext(t.Context(), "a", 7), methodPut, wrapperspb.Bytes(nil), wrapperspb.Bytes(nil), nil,
			func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
				return answer.Err()
			})
		if (err == nil) != (codes.Code(code) == codes.OK) || status.Code(err) != codes.Code(code) {
			t.Errorf("code %d became %v", code, err)
		}
		var stale *guard.StaleError
		if errors.As(err, &stale) && (resource != "a" || token != "7" || stale.Highest <= 7 || stale.Highest.String() != highest) {
			t.Errorf("%q %q %q %q became %v", reason, resource, token, highest, err)
		}
		if codes.Code(code) == codes.Unavailable && !errors.Is(err, guard.ErrUnknown) {
			t.Errorf("an unknown outcome became %v", err)
		}
	})
}
