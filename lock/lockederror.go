package lock

import (
	"errors"
	"fmt"
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
	return fmt.Sprintf("lock: %q is locked by %s", e.Name, e.Holder)
}

// Unwrap returns [ErrLocked].
func (e *LockedError) Unwrap() error { return ErrLocked }
