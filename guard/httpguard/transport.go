package httpguard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/internal/fencing"
)

// Transport is an http.RoundTripper that sends the resource and the token of the request's context, which is that of a
// held lock or comes from [guard.NewContext], and turns the answers of [WriteError] and [Handler] back into errors of
// package guard. The zero value is ready. It is safe for concurrent use if Base is.
//
// A request with a token ends in one of these ways:
//   - a response, whatever its status: one of your service, a proxy or whatever answered;
//   - a [*guard.StaleError]: the server has seen a higher token for this resource;
//   - an error that wraps [guard.ErrNoToken]: the token never came to the server, or the context's is none;
//   - one that wraps [guard.ErrUnknown]: the server does not know what became of the write; or no answer came to a request
//     that may have been sent; or Base sent it more than once, and the answer speaks of the last time only; or a redirect
//     by another status than 307 or 308 led to this request, and it failed: of what was asked first nothing is known;
//   - any other: it was not sent.
//
// It was certainly not sent if the context had ended before, if the arguments were refused here, or if Base had not even a
// connection for it, as net/http/httptrace tells of an http.Transport: no route, connection refused, no TLS. Of
// a Base that reports nothing to httptrace any error is ErrUnknown.
//
// A problem that speaks of another resource or another token than the request had, or of a mark that is not higher, is not
// believed, and neither is a 412 without it; they are left to you as responses.
//
// A request whose context carries no token is sent as it is: reads go through the same client, and only the server knows what
// it guards. If it refuses, the error wraps guard.ErrNoToken and says what was forgotten. A token of 0, such as a reader's, is
// refused here: use a context without it.
//
// What to know beside it:
//   - Set deadlines by the context. A request with a token under a Client.Timeout is refused: http.Client replaces the error
//     when it fires, and nobody would know that the outcome is unknown.
//   - http.Transport sends a request again when a connection that was used before breaks, if its method is GET, HEAD, OPTIONS
//     or TRACE, if it has an Idempotency-Key header, or if nothing of it was sent. The mark does not mind a token that
//     comes twice; whether your service minds doing the work twice is what the key is for.
//   - What sends again by itself belongs around Transport, where it sees its errors, and not into Base.
//   - Redirects are requests of the same context, so the token follows to whichever host they lead. It is no secret. What
//     http.Client itself says of them is not Transport's: after "stopped after 10 redirects", a missing Location or an error
//     of CheckRedirect, the first request was answered and may have been applied.
//   - A proxy or load balancer that repeats requests must not do so for writes, see the package. Nothing here can tell.
type Transport struct {
	// Base makes the requests; nil: http.DefaultTransport. Neither it nor a proxy behind it may send a write twice unless the
	// handler is idempotent: the second answer can be that the token is stale, though the first time the write was applied.
	Base http.RoundTripper

	// OnOutcome is called once for each request whose context carries a token, with the error that RoundTrip is about to
	// return; nil means that an answer came, and not that it was a good one. It must return quickly: the caller waits.
	// nil: nothing is called.
	OnOutcome func(ctx context.Context, resource string, tok guard.Token, err error)
}

var _ http.RoundTripper = (*Transport)(nil)

// RoundTrip implements http.RoundTripper, but for returning an error, and no response, in place of an answer that says what
// became of the write. It does not change req.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	resource, tok, ok := guard.FromContext(req.Context())
	if !ok {
		resp, err := t.base().RoundTrip(req)
		if err != nil {
			return nil, err
		}
		if p, ok, _ := readProblem(resp); ok && p.Type == noToken {
			_ = resp.Body.Close()
			return nil, fmt.Errorf("httpguard: %w: the server demands one, and the request's context carries none; use the context of the held lock", guard.ErrNoToken)
		}
		return resp, nil
	}
	resp, err := t.guarded(req, resource, tok)
	err = followed(req, err)
	if t.OnOutcome != nil {
		t.OnOutcome(req.Context(), resource, tok, err)
	}
	return resp, err
}

// CloseIdleConnections closes those of Base, if it can.
func (t *Transport) CloseIdleConnections() {
	if b, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		b.CloseIdleConnections()
	}
}

func (t *Transport) base() http.RoundTripper {
	if t.Base != nil {
		return t.Base
	}
	return http.DefaultTransport
}

func (t *Transport) guarded(req *http.Request, resource string, tok guard.Token) (*http.Response, error) {
	ctx := req.Context()
	var sent sending
	out := req.Clone(sent.trace(ctx))
	if err := prepare(out, resource, tok); err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // as a RoundTripper has to
		}
		return nil, err
	}
	resp, err := t.base().RoundTrip(out)
	if err != nil {
		if sent.never() {
			return nil, because(ctx, fmt.Errorf("httpguard: not sent, there was no connection: %w", err))
		}
		return nil, &lostError{because(ctx, err)}
	}
	resp.Request = req
	p, ok, err := readProblem(resp)
	if err != nil {
		err = &lostError{because(ctx, fmt.Errorf("the answer %s broke off: %w", resp.Status, err))}
	} else if ok {
		err = p.err(resource, tok)
	}
	if err == nil {
		return resp, nil
	}
	_ = resp.Body.Close()
	if n := sent.times(); n > 1 && !errors.Is(err, guard.ErrUnknown) {
		// Not wrapped: nobody is to find ErrStale in it.
		err = fmt.Errorf("httpguard: %w: the request was sent %d times, and what became of it before the last time is not known; look before you go on (last answer: %v)", guard.ErrUnknown, n, err)
	}
	return nil, err
}

// prepare puts the headers into a request that is about to be sent, or says why it must not be.
func prepare(out *http.Request, resource string, tok guard.Token) error {
	if err := guard.Check(resource, tok, 0); err != nil {
		return fmt.Errorf("httpguard: not sent, the request's context carries what is no token: %w", err)
	}
	if out.Context().Err() != nil {
		return because(out.Context(), errors.New("httpguard: not sent, the request's context had ended before"))
	}
	//lint:ignore SA1019 it is how http.Client hands its Timeout to transports that it does not know
	if out.Cancel != nil {
		return errors.New("httpguard: not sent: http.Client.Timeout would replace the error that says whether a write was applied; leave it 0 and set a deadline on the request's context")
	}
	want := map[string]string{TokenHeader: tok.String(), ResourceHeader: fencing.Escape(resource)}
	for name, values := range out.Header {
		value, ours := want[textproto.CanonicalMIMEHeaderKey(name)]
		if !ours {
			continue
		}
		if len(values) != 1 || values[0] != value {
			return fmt.Errorf("httpguard: not sent: the header %s is set to %.80q, and the request's context says %q; set it in one place", name, values, value)
		}
		delete(out.Header, name) // it may be spelled otherwise
	}
	if out.Header == nil {
		out.Header = make(http.Header)
	}
	for name, value := range want {
		out.Header.Set(name, value)
	}
	return nil
}

// err is what a problem says about a request for resource with tok, nil if it speaks of another.
func (p problem) err(resource string, tok guard.Token) error {
	switch p.Type {
	case stale:
		if err, ok := p.staleError(resource, tok); ok {
			return err
		}
	case unknown:
		return fmt.Errorf("httpguard: %w: the server does not know either; look before you go on", guard.ErrUnknown)
	case noToken:
		return fmt.Errorf("httpguard: %w: the server says that it got none, though this client sent one; see what is between them", guard.ErrNoToken)
	}
	return nil
}

// because adds why the context ended if it has: what transports return then does not always say so.
func because(ctx context.Context, err error) error {
	for _, reason := range []error{ctx.Err(), context.Cause(ctx)} {
		if reason != nil && !errors.Is(err, reason) {
			err = fmt.Errorf("%w (%w)", err, reason)
		}
	}
	return err
}
