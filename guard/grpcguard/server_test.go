package grpcguard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
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

// admitting says which resource and token a call was admitted with.
func admitting(ctx context.Context, _ string, _ []byte) ([]byte, error) {
	resource, tok, ok := guard.FromContext(ctx)
	return fmt.Appendf(nil, "%q %d %v", resource, int64(tok), ok), nil
}

// reason is what a status refuses a call for.
func reason(err error) string {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == "github.com/fencedlock/fencedlock" {
			return info.GetReason()
		}
	}
	return ""
}

// outcomes collects what OnOutcome is called with.
type outcomes struct {
	mu  sync.Mutex
	got []error // guarded by mu
}

func (o *outcomes) add(_ context.Context, _ string, _ guard.Token, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.got = append(o.got, err)
}

func (o *outcomes) take() []error {
	o.mu.Lock()
	defer o.mu.Unlock()
	got := o.got
	o.got = nil
	return got
}

// What a library makes of a key that comes twice differs: the first, the last, both joined:
// https://github.com/grpc/grpc-java/pull/5020, https://github.com/grpc/grpc-node/pull/1275
func TestOneCanonicalTokenIsAdmittedAndNothingElse(t *testing.T) {
	var seen outcomes
	s := serve(t, &grpcguard.Options{OnOutcome: seen.add}, admitting)
	conn := dial(t, s.addr)
	for _, c := range []struct {
		what   string
		pairs  []string
		reason string
	}{
		{"one", []string{"fencing-token", "9", "fencing-resource", "account/1"}, ""},
		{"upper case", []string{"FENCING-TOKEN", "9", "Fencing-Resource", "account/1"}, ""},
		{"the highest", []string{"fencing-token", "9223372036854775807", "fencing-resource", "a%2C%20b"}, ""},
		{"nothing", nil, "NO_TOKEN"},
		{"the resource alone", []string{"fencing-resource", "a"}, "NO_TOKEN"},
		{"the token alone", []string{"fencing-token", "9"}, "MALFORMED_TOKEN"},
		{"two values", []string{"fencing-token", "5", "fencing-token", "9", "fencing-resource", "a"}, "MALFORMED_TOKEN"},
		{"one value twice", []string{"fencing-token", "9", "Fencing-Token", "9", "fencing-resource", "a"}, "MALFORMED_TOKEN"},
		{"two resources", []string{"fencing-token", "9", "fencing-resource", "a", "fencing-resource", "b"}, "MALFORMED_TOKEN"},
		{"joined", []string{"fencing-token", "5,9", "fencing-resource", "a"}, "MALFORMED_TOKEN"},
		{"a blank before", []string{"fencing-token", " 9", "fencing-resource", "a"}, "MALFORMED_TOKEN"},
		{"a plus", []string{"fencing-token", "+9", "fencing-resource", "a"}, "MALFORMED_TOKEN"},
		{"a fraction", []string{"fencing-token", "9.0", "fencing-resource", "a"}, "MALFORMED_TOKEN"},
		{"an exponent", []string{"fencing-token", "1e3", "fencing-resource", "a"}, "MALFORMED_TOKEN"},
		{"overflow", []string{"fencing-token", "9223372036854775808", "fencing-resource", "a"}, "MALFORMED_TOKEN"},
		{"negative", []string{"fencing-token", "-9", "fencing-resource", "a"}, "MALFORMED_TOKEN"},
		{"zero", []string{"fencing-token", "0", "fencing-resource", "a"}, "MALFORMED_TOKEN"},
		{"empty", []string{"fencing-token", "", "fencing-resource", "a"}, "MALFORMED_TOKEN"},
		{"an escape in lower case", []string{"fencing-token", "9", "fencing-resource", "a%2cb"}, "MALFORMED_TOKEN"},
		{"a binary key", []string{"fencing-token-bin", "9", "fencing-resource", "a"}, "NO_TOKEN"},
	} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), c.pairs...)
		unary, err := call(ctx, conn, methodPut, "v")
		streamed := bulk(ctx, conn, "v")
		for what, err := range map[string]error{"call": err, "stream": streamed} {
			if reason(err) != c.reason || c.reason == "" && err != nil || c.reason != "" && status.Code(err) != codes.InvalidArgument {
				t.Errorf("%s, %s: %v; want %q", c.what, what, err, c.reason)
			}
		}
		if c.reason == "" && (!strings.HasSuffix(unary, " true") || !strings.Contains(unary, c.pairs[1])) {
			t.Errorf("%s: the handler found %s", c.what, unary)
		}
		got := seen.take()
		if len(got) != 2 || (got[0] == nil) != (c.reason == "") || (got[1] == nil) != (c.reason == "") {
			t.Errorf("%s: outcomes %v; want two", c.what, got)
		} else if c.reason == "NO_TOKEN" && (!errors.Is(got[0], guard.ErrNoToken) || !strings.HasPrefix(got[0].Error(), "grpcguard: ")) {
			t.Errorf("%s: outcome %v", c.what, got[0])
		}
	}
}

func TestATokenForAnotherResourceThanTheCallWritesIsRefused(t *testing.T) {
	store := newStore(t)
	s := serve(t, &grpcguard.Options{Resource: func(method string, req any) string {
		if method != methodPut && method != methodBulk && method != methodEach {
			t.Errorf("asked for %s", method)
		}
		value := strings.TrimSuffix(string(req.(*wrapperspb.BytesValue).GetValue()), "!")
		if value == "none" {
			return ""
		}
		return value
	}}, store.handle)
	conn := dial(t, s.addr, guarded(nil)...)
	ctx := guard.NewContext(t.Context(), "a", 9)
	if _, err := call(ctx, conn, methodPut, "a!"); err != nil {
		t.Error(err)
	}
	if err := bulk(ctx, conn, "a", "a!"); err != nil {
		t.Error(err)
	}
	_, err := call(ctx, conn, methodPut, "b")
	for what, err := range map[string]error{"call": err, "stream": bulk(ctx, conn, "b", "a"), "answered": each(ctx, conn, "b", "a")} {
		if status.Code(err) != codes.InvalidArgument || reason(err) != "MALFORMED_TOKEN" || !strings.Contains(err.Error(), `for the resource "a", and the request writes "b"`) || errors.Is(err, guard.ErrUnknown) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err = call(ctx, conn, methodPut, "none")
	for what, err := range map[string]error{"call": err, "stream": bulk(ctx, conn, "none", "a")} {
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "named no resource that a *wrapperspb.BytesValue to /test.KV/") || errors.Is(err, guard.ErrUnknown) {
			t.Errorf("%s without a name: %v", what, err)
		}
	}
	unknown(t, "in the middle", bulk(ctx, conn, "a", "b", "a!"), codes.Unknown)
	store.stored(t, "a", "a") // neither the "b" in its middle nor what came behind it
}

func TestOptionalLetsPassWhatHasNeitherKey(t *testing.T) {
	s := serve(t, &grpcguard.Options{
		Optional:  readers,
		Resource:  func(string, any) string { return "a" },
		OnOutcome: func(context.Context, string, guard.Token, error) {},
	}, admitting)
	conn := dial(t, s.addr)
	for _, c := range []struct {
		method string
		pairs  []string
		reason string
		found  string
	}{
		{methodRead, nil, "", `"" 0 false`},
		{methodRead, []string{"fencing-token", "9", "fencing-resource", "a"}, "", `"a" 9 true`},
		{methodRead, []string{"fencing-token", "9"}, "MALFORMED_TOKEN", ""},
		{methodRead, []string{"fencing-resource", "a"}, "NO_TOKEN", ""}, // one of two was lost on the way
		{methodRead, []string{"fencing-token", "9", "fencing-resource", "b"}, "MALFORMED_TOKEN", ""},
		{methodPut, nil, "NO_TOKEN", ""},
	} {
		found, err := call(metadata.AppendToOutgoingContext(t.Context(), c.pairs...), conn, c.method, "")
		if found != c.found || reason(err) != c.reason || (err == nil) != (c.reason == "") {
			t.Errorf("%s %v: %s, %v", c.method, c.pairs, found, err)
		}
	}
}

func TestErrorAnswersTheErrorsOfGuardsOnly(t *testing.T) {
	stale := &guard.StaleError{Resource: "a", Token: 7, Highest: 9}
	secret := errors.New("dial db.internal: password is hunter2")
	for _, c := range []struct {
		err    error
		code   codes.Code
		reason string
	}{
		{stale, codes.FailedPrecondition, "STALE_TOKEN"},
		{fmt.Errorf("saving: %w", stale), codes.FailedPrecondition, "STALE_TOKEN"},
		{fmt.Errorf("%w: COMMIT failed: %w", guard.ErrUnknown, secret), codes.Unknown, "OUTCOME_UNKNOWN"},
		{errors.Join(stale, guard.ErrUnknown), codes.Unknown, "OUTCOME_UNKNOWN"}, // a retry was refused, the first try is open
		{guard.Check("a", 0, 0), codes.InvalidArgument, "NO_TOKEN"},
		{nil, codes.OK, ""},
		{secret, codes.Unknown, ""},
		{guard.ErrStale, codes.Unknown, ""}, // by which mark?
		{status.Error(codes.NotFound, "no account"), codes.NotFound, ""},
		{&guard.StaleError{Resource: "\xff", Token: 7, Highest: 9}, codes.FailedPrecondition, ""}, // cannot travel, and is refused all the same
	} {
		got := grpcguard.Error(c.err)
		if status.Code(got) != c.code || reason(got) != c.reason || c.reason == "" && c.code != codes.FailedPrecondition && got != c.err {
			t.Errorf("%v: %v %q", c.err, got, reason(got))
		}
		if c.reason != "" && strings.Contains(got.Error(), "hunter2") {
			t.Errorf("the client reads %v", got)
		}
	}
}

// Whatever comes over the network: what is admitted has one reading, and everything is answered.
func FuzzServer(f *testing.F) {
	for _, s := range []string{"9", " 9", "+9", "9.0", "1e3", "5,9", "9223372036854775808", "-1", ""} {
		f.Add(s, "account/1", "")
		f.Add("9", s, s)
	}
	intercept := grpcguard.UnaryServerInterceptor(nil)
	f.Fuzz(func(t *testing.T, token, resource, second string) {
		md := metadata.MD{"fencing-token": {token}, "fencing-resource": {resource}}
		if second != "" {
			md.Append("fencing-token", second)
		}
		_, err := intercept(metadata.NewIncomingContext(t.Context(), md), nil, &grpc.UnaryServerInfo{FullMethod: methodPut}, func(ctx context.Context, _ any) (any, error) {
			r, tok, ok := guard.FromContext(ctx)
			if !ok || guard.Check(r, tok, 0) != nil || tok.String() != token || second != "" {
				t.Errorf("%q %q %q was admitted as %q, %d", token, resource, second, r, int64(tok))
			}
			return nil, nil
		})
		if err != nil && reason(err) != "MALFORMED_TOKEN" {
			t.Errorf("%q %q %q: %v", token, resource, second, err)
		}
	})
}
