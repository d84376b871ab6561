package lock

import (
	"errors"
	"fmt"
	"time"
)

// ErrLocked is why TryLock did not get a lock: another has it, or waits for it.
// The error found is a [*LockedError].
var ErrLocked = errors.New("lock: locked")

// LockedError says who holds a lock that could not be taken at once. It is found
// with [errors.As], and errors.Is(err, [ErrLocked]) is true for it.
type LockedError struct {
	Name   string
	Holder Entry // the head of the queue when etcd was asked
}

// Error names the lock and its holder.
func (e *LockedError) Error() string {
	owner := e.Holder.Owner
	if owner == "" {
		owner = "an unknown owner"
	}
	text := fmt.Sprintf("lock: %q is locked by %s (token %d, lease %x", e.Name, owner, int64(e.Holder.Token), int64(e.Holder.Lease))
	if !e.Holder.Since.IsZero() {
		text += ", since " + e.Holder.Since.Format(time.RFC3339)
	}
	if e.Holder.Lease == 0 {
		text += "; the key has no lease, so it stays until somebody deletes it"
	}
	return text + ")"
}

// Unwrap returns [ErrLocked].
func (e *LockedError) Unwrap() error { return ErrLocked }
