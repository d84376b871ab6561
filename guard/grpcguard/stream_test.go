package grpcguard_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/grpcguard"
)

// refusing writes what it gets but for the names of refusals, which it answers with.
func refusing(s *store) handlerFunc {
	stale := &guard.StaleError{Resource: "a", Token: 7, Highest: 9}
	refusals := map[string]error{
		"stale": stale, "stale status": grpcguard.Error(stale), "no token": guard.ErrNoToken, "not found": status.Error(codes.NotFound, "no account"),
	}
	return func(ctx context.Context, method string, in []byte) ([]byte, error) {
		if err := refusals[string(in)]; err != nil {
			return nil, err
		}
		return s.handle(ctx, method, in)
	}
}

// A stream's end is one error for all its messages. When it refuses the second, the first was written.
func TestAStreamThatIsRefusedHalfWayIsUnknown(t *testing.T) {
	store := newStore(t)
	var seen outcomes
	s := serve(t, &grpcguard.Options{OnOutcome: seen.add, Resource: func(_ string, req any) string {
		if string(req.(*wrapperspb.BytesValue).GetValue()) == "of another" {
			return "b"
		}
		return "a"
	}}, refusing(store))
	conn := dial(t, s.addr, guarded(nil)...)
	ctx := guard.NewContext(t.Context(), "a", 7)
	for name, stream := range map[string]func(context.Context, *grpc.ClientConn, ...string) error{"one answer": bulk, "an answer for each": each} {
		for refused, c := range map[string]struct {
			code, half codes.Code // of the first message's refusal, and of a later one's
			says       string
		}{
			"of another":   {codes.InvalidArgument, codes.Unknown, `the request writes "b"`},
			"stale":        {codes.FailedPrecondition, codes.Unknown, "9 has been seen"},
			"stale status": {codes.FailedPrecondition, codes.Unknown, "9 has been seen"},
			"no token":     {codes.InvalidArgument, codes.Unknown, "has to carry the token"},
			"not found":    {codes.NotFound, codes.NotFound, "no account"},
		} {
			seen.take()
			first := name + refused
			err := stream(ctx, conn, first, refused)
			unknown(t, first, err, c.half)
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v; want the reason, %q", first, err, c.says)
			}
			store.stored(t, "a", first)
			if got := seen.take(); len(got) != 1 || got[0] == nil {
				t.Errorf("%s: the server's outcomes %v; want the refusal", first, got)
			}
			// Of the first message it is what it says.
			err = stream(ctx, conn, refused)
			if errors.Is(err, guard.ErrUnknown) || status.Code(err) != c.code || errors.Is(err, guard.ErrStale) != strings.HasPrefix(refused, "stale") {
				t.Errorf("%s alone: %v", refused, err)
			}
			store.stored(t, "a", first)
		}
	}
}

// The client has sent more than the server has looked at, and the server's word counts.
func TestARefusalOfTheFirstOfManyMessagesIsCertain(t *testing.T) {
	store := newStore(t)
	s := serve(t, nil, refusing(store))
	conn := dial(t, s.addr, guarded(nil)...)
	err := bulk(guard.NewContext(t.Context(), "a", 7), conn, "stale", "v", "v")
	if !errors.Is(err, guard.ErrStale) || errors.Is(err, guard.ErrUnknown) {
		t.Errorf("%v; want ErrStale", err)
	}
	store.stored(t, "a", "")
}
