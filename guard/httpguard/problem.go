package httpguard

import (
	"encoding/json"
	"net/http"

	"github.com/fencedlock/fencedlock/guard"
)

const problemType = "application/problem+json"

// kind is what a problem says, by the URI of its type.
type kind string

const (
	stale     kind = "urn:fencedlock:stale-token"
	noToken   kind = "urn:fencedlock:no-token"
	malformed kind = "urn:fencedlock:malformed-token"
	unknown   kind = "urn:fencedlock:outcome-unknown"
)

// status is the one that a kind comes with.
var status = map[kind]int{
	stale:     http.StatusPreconditionFailed,
	noToken:   http.StatusPreconditionRequired, // RFC 6585, section 3
	malformed: http.StatusBadRequest,
	unknown:   http.StatusInternalServerError, // not 502 to 504, which proxies and clients take for a reason to send again
}

// problem is the body of a refusal.
type problem struct {
	Type     kind   `json:"type"`
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail,omitempty"`
	Resource string `json:"resource,omitempty"`
	Token    string `json:"token,omitempty"` // decimal: a JSON number loses digits beyond 2^53
	Highest  string `json:"highest,omitempty"`
}

func (p problem) write(w http.ResponseWriter) {
	p.Status = status[p.Type]
	body, err := json.Marshal(p)
	if err != nil { // cannot be: the fields are strings
		body = nil
	}
	h := w.Header()
	for _, name := range []string{"Content-Length", "Content-Encoding", "Etag", "Last-Modified", "Cache-Control"} {
		h.Del(name) // they were of the answer that the handler had in mind
	}
	h.Set("Content-Type", problemType)
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // the client has gone if that fails
}

// staleError is what a problem says about a request for resource with tok; ok only if it speaks of just that.
func (p problem) staleError(resource string, tok guard.Token) (*guard.StaleError, bool) {
	highest, err := guard.ParseToken(p.Highest)
	if err != nil || p.Resource != resource || p.Token != tok.String() || highest <= tok {
		return nil, false
	}
	return &guard.StaleError{Resource: resource, Token: tok, Highest: highest}, true
}
