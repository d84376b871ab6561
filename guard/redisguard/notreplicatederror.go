package redisguard

import (
	"fmt"

	"github.com/fencedlock/fencedlock/guard"
)

// NotReplicatedError says that a write was applied on the primary, and that too few replicas had it in time. It is found
// with [errors.As], and errors.Is(err, [guard.ErrUnknown]) is true for it: it is there now, and a failover can lose it
// together with its mark. Sealing again with the same token, once replicas are back, makes sure of both.
type NotReplicatedError struct {
	Resource string
	Token    guard.Token
	Replicas int // how many had it
	Wanted   int // Options.Replicas
}

// Error names the resource and both numbers.
func (e *NotReplicatedError) Error() string {
	return fmt.Sprintf("redisguard: %v: the write to %q with token %d is applied, but %d of %d replicas have it, so a failover can lose it and its mark",
		guard.ErrUnknown, e.Resource, int64(e.Token), e.Replicas, e.Wanted)
}

// Unwrap returns [guard.ErrUnknown].
func (e *NotReplicatedError) Unwrap() error { return guard.ErrUnknown }
