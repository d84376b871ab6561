// Package httpguard carries a holder's token over HTTP: the client sends it with every request, the server refuses requests
// that have none or more than one, and the refusal by the server's storage arrives at the client as the [*guard.StaleError]
// that it was. The fence itself is not here: it is the guard in the handler's storage, such as sqlguard, that compares
// the token in the step that writes. A server that only looks at the token before it writes is not guarded.
//
// The client:
//
//	client := &http.Client{Transport: &httpguard.Transport{}}
//	req, err := http.NewRequestWithContext(held.Context(), http.MethodPut, url, body)
//	resp, err := client.Do(req) // errors.Is(err, guard.ErrStale)
//
// The server:
//
//	mux.Handle("PUT /accounts/{id}", httpguard.Handler(http.HandlerFunc(put), &httpguard.Options{
//		Resource: func(r *http.Request) string { return "account/" + r.PathValue("id") },
//	}))
//
//	func put(w http.ResponseWriter, r *http.Request) {
//		resource, tok, _ := guard.FromContext(r.Context())
//		err := g.Do(r.Context(), resource, tok, func(ctx context.Context, tx *sql.Tx) error { ... })
//		switch {
//		case err == nil:
//			w.WriteHeader(http.StatusNoContent)
//		case !httpguard.WriteError(w, err):
//			http.Error(w, "not stored", http.StatusInternalServerError)
//		}
//	}
//
// What it guarantees: a request reaches the handler only with exactly one token and one resource, each in its only form,
// unless Options.Optional lets it pass without both; and the client gets ErrStale only if the server said that it had seen
// a higher token for just this resource and just this token. A request that may have been sent and was not answered is
// [guard.ErrUnknown], see [Transport].
//
// What it does not: a token is no secret and gives no rights, so authenticate as you did before. And a response with
// another status is what it always was; what a 502 or 504 of a proxy says of a write is: nothing.
//
// What repeats requests on the way has to leave writes alone: of nginx, proxy_next_upstream tries PUT and DELETE again on
// another server after an error or a timeout, and POST too with non_idempotent, so set "proxy_next_upstream off" where
// writes pass. A write that is repeated unseen may be done twice, since the mark lets the same token in twice; or it is done
// once, a newer holder writes, and the client is told that its own was refused as stale. Where retries cannot be switched off,
// the handler has to be idempotent, by a number that the client makes for each write and the storage keeps with it, as
// sqlguard's Once does.
//
// A token for another resource than the request writes is a response with status 400, and no error: look at the status.
//
// # On the wire
//
// Fencing-Token is the token in decimal digits without sign, leading zeros or blanks. Fencing-Resource is the name of the
// resource, UTF-8, with every byte percent-encoded, in upper-case digits, but for ASCII letters, digits and "-._~/": in
// Python urllib.parse.quote(name). Each has to be there once, as a header and not as a trailer.
//
// Refusals are problems as in RFC 9457, application/problem+json:
//
//	412  urn:fencedlock:stale-token      with the members resource, token and highest; the last two are strings
//	428  urn:fencedlock:no-token
//	400  urn:fencedlock:malformed-token  also for another resource than the request writes
//	500  urn:fencedlock:outcome-unknown
package httpguard

// The headers, one of each in a request.
const (
	TokenHeader    = "Fencing-Token"
	ResourceHeader = "Fencing-Resource"
)
