// Package fencing is the form in which a resource's name and its token travel between programs: two text fields, which
// HTTP calls headers and gRPC metadata. Each has one canonical form, and what differs from it is refused.
package fencing

import (
	"errors"
	"fmt"

	"github.com/fencedlock/fencedlock/guard"
)

// The types of what a server answers, shared by both protocols.
const (
	Domain = "github.com/fencedlock/fencedlock" // of gRPC's ErrorInfo

	Stale     = "STALE_TOKEN"
	Unknown   = "OUTCOME_UNKNOWN"
	NoToken   = "NO_TOKEN"
	Malformed = "MALFORMED_TOKEN"
)

// ErrMissing is the error of Parse when there is no token at all.
var ErrMissing = fmt.Errorf("%w was sent", guard.ErrNoToken)

// Parse reads all values of both fields. It takes exactly one of each: which one of two a program uses, and which one it
// logs, would depend on its libraries. Without a token the error is ErrMissing, otherwise it says what is malformed.
func Parse(tokens, resources []string) (resource string, tok guard.Token, err error) {
	if len(tokens) == 0 {
		return "", 0, ErrMissing
	}
	if len(tokens) > 1 {
		return "", 0, fmt.Errorf("%w: %d tokens were sent; send one", guard.ErrNoToken, len(tokens))
	}
	switch len(resources) {
	case 0:
		return "", 0, errors.New("a token was sent without the name of its resource; send both")
	case 1:
	default:
		return "", 0, fmt.Errorf("%d names of resources were sent; send one", len(resources))
	}
	if tok, err = guard.ParseToken(tokens[0]); err != nil {
		return "", 0, err
	}
	if resource, err = Unescape(resources[0]); err != nil {
		return "", 0, err
	}
	return resource, tok, nil
}
