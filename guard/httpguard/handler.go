package httpguard

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/internal/fencing"
)

// Options are the choices of a [Handler]. The zero value of each field is its default.
type Options struct {
	// Resource returns the name of the resource that a request writes, by its path for instance. A request whose token is
	// for another resource is refused with 400: a mistake of the client, whose lock protects something else. A client sees that
	// as a response with a nil error, and has to look at its status; grpcguard's client gets an error. "" is a mistake of
	// the server, which does not know what the request writes: it is answered with 500, and not handed on either.
	//
	// nil: the client's word counts. Then the handler must take what it writes from the resource in the context, and not
	// from the path, or a client with any lock at all writes there, and the guard compares its token with another mark.
	Resource func(r *http.Request) string

	// Optional tells which requests may come without a token, such as those that only read: those for which it returns
	// true pass if they carry neither header. What they carry has to be right all the same. nil: none.
	Optional func(r *http.Request) bool

	// OnOutcome is called for each request before it is handed on, with a nil error, or refused, with the reason;
	// resource and tok are empty where they could not be read. It is not called for what Optional let pass. It knows
	// nothing of what the handler then does: the guard there has an OnOutcome of its own. It must return quickly.
	// nil: nothing is called.
	OnOutcome func(ctx context.Context, resource string, tok guard.Token, err error)
}

// Handler hands a request on to next if it carries one resource and one token, each in its only form, and puts them into
// the request's context, where [guard.FromContext] finds them. It answers others by itself: 428 if there is no token,
// 400 if what is there is malformed, doubled or for another resource than Options.Resource names, 500 if that names none. nil
// Options are the defaults. Without a next, nil or a nil http.HandlerFunc, every answer is 500.
//
// It reads and checks the form, and knows no mark. Whether the token is too old is for the guard in next's storage to say,
// in the step that writes; [WriteError] passes that on to the client.
//
// What calls next carries the token in its context, so that a [Transport] used in next with it sends the token on.
func Handler(next http.Handler, o *Options) http.Handler {
	if o == nil {
		o = &Options{}
	}
	if f, ok := next.(http.HandlerFunc); ok && f == nil {
		next = nil
	}
	return &handler{next, *o}
}

// errNoName is the server's own mistake.
var errNoName = errors.New("the server named no resource that the request writes: its Options.Resource returned \"\"")

type handler struct {
	next http.Handler
	opts Options
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.next == nil {
		http.Error(w, "httpguard: Handler was given no handler: next is nil", http.StatusInternalServerError)
		return
	}
	tokens, resources := r.Header.Values(TokenHeader), r.Header.Values(ResourceHeader)
	if len(tokens)+len(resources) == 0 && h.opts.Optional != nil && h.opts.Optional(r) {
		h.next.ServeHTTP(w, r)
		return
	}
	resource, tok, err := fencing.Parse(tokens, resources)
	if err == nil && h.opts.Resource != nil {
		switch writes := h.opts.Resource(r); writes {
		case resource:
		case "":
			err = errNoName
		default:
			err = fmt.Errorf("the token is for the resource %.128q, and the request writes %.128q", resource, writes)
		}
	}
	if h.opts.OnOutcome != nil {
		reason := err
		if err != nil {
			reason = fmt.Errorf("httpguard: %w", err)
		}
		h.opts.OnOutcome(r.Context(), resource, tok, reason)
	}
	switch {
	case errors.Is(err, fencing.ErrMissing):
		missing().write(w)
	case errors.Is(err, errNoName):
		http.Error(w, "httpguard: "+err.Error(), http.StatusInternalServerError)
	case err != nil:
		problem{Type: malformed, Title: "malformed fencing token", Detail: err.Error()}.write(w)
	default:
		h.next.ServeHTTP(w, r.WithContext(guard.NewContext(r.Context(), resource, tok)))
	}
}
