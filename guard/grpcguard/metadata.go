// Package grpcguard carries a holder's token over gRPC: the client's interceptors send it with every call, the server's refuse
// calls that have none or more than one, and the refusal by the server's storage arrives at the client as the
// [*guard.StaleError] that it was. The fence itself is not here: it is the guard in the handler's storage, such as
// sqlguard, that compares the token in the step that writes. A server that only looks at the token before it writes is not
// guarded.
//
// The client:
//
//	conn, err := grpc.NewClient(target,
//		grpc.WithChainUnaryInterceptor(grpcguard.UnaryClientInterceptor(nil)),
//		grpc.WithChainStreamInterceptor(grpcguard.StreamClientInterceptor(nil)))
//	_, err = accounts.Save(held.Context(), account) // errors.Is(err, guard.ErrStale)
//
// The server:
//
//	opts := &grpcguard.Options{
//		Resource: func(method string, req any) string {
//			if r, ok := req.(interface{ GetId() string }); ok {
//				return "account/" + r.GetId()
//			}
//			return "" // refused: no token is for it
//		},
//		Optional: func(ctx context.Context, method string) bool { // what comes without a token
//			return strings.HasPrefix(method, "/grpc.health.") || strings.HasPrefix(method, "/grpc.reflection.")
//		},
//	}
//	s := grpc.NewServer(
//		grpc.ChainUnaryInterceptor(grpcguard.UnaryServerInterceptor(opts)),
//		grpc.ChainStreamInterceptor(grpcguard.StreamServerInterceptor(opts)))
//
//	func (s *accounts) Save(ctx context.Context, a *pb.Account) (*emptypb.Empty, error) {
//		resource, tok, _ := guard.FromContext(ctx)
//		return &emptypb.Empty{}, s.guard.Do(ctx, resource, tok, func(ctx context.Context, tx *sql.Tx) error { ... })
//	}
//
// What it guarantees: a call reaches the handler only with exactly one token and one resource, each in its only form, unless
// Options.Optional lets it pass without both; and the client gets ErrStale only if the server said that it had seen a higher
// token for just this resource and just this token. A call that may have come to the server and whose end does not tell
// whether its work was done is [guard.ErrUnknown], see [UnaryClientInterceptor].
//
// What it does not: a token is no secret and gives no rights, so authenticate as you did before.
//
// What repeats calls on the way has to leave writes alone: nginx's grpc_next_upstream, or the retry policies of service
// meshes. A write that is repeated unseen may be done twice, since the mark lets the same token in twice; or it is done once,
// a newer holder writes, and the client is told that its own was refused as stale. Where retries cannot be switched off, the
// handler has to be idempotent, by a number that the client makes for each write and the storage keeps with it, as sqlguard's
// Once does.
//
// A token for another resource than the call writes is an error with the code InvalidArgument.
//
// # On the wire
//
// The metadata fencing-token is the token in decimal digits without sign, leading zeros or blanks. fencing-resource is the
// name of the resource, UTF-8, with every byte percent-encoded, in upper-case digits, but for ASCII letters, digits and
// "-._~/": in Python urllib.parse.quote(name). Each has to be there once.
//
// Refusals are a status with a detail google.rpc.ErrorInfo of the domain "github.com/fencedlock/fencedlock":
//
//	FAILED_PRECONDITION  STALE_TOKEN      with the metadata resource, token and highest
//	INVALID_ARGUMENT     NO_TOKEN
//	INVALID_ARGUMENT     MALFORMED_TOKEN  also for another resource than the call writes
//	UNKNOWN              OUTCOME_UNKNOWN  also for a refusal after the first message of a stream
package grpcguard

// The keys of the metadata, one of each in a call.
const (
	TokenKey    = "fencing-token"
	ResourceKey = "fencing-resource"
)
