// Package guard keeps late writers from corrupting a resource: a write that carries a token lower than the highest
// one the resource has seen is refused, inside the storage and in the same atomic step as the write.
//
// A lock alone cannot do that. A lock is a lease, and a holder that was paused (garbage collection, a frozen virtual
// machine, a slow network) finds out too late that it has lost it; its last write is then already on the way. So the
// lock hands out a [Token] that grows with every holder, and the resource keeps the highest it has seen, the mark.
//
// This package has the words and the rule: [Token], [Check], the errors, and [Gate] for resources inside one process.
// The packages below it bring the rule into databases. It imports the standard library only.
//
// What a guard does not do: a token is no secret and gives no rights, so a guard protects against late writers and
// not against hostile ones; and it knows nothing of locks, so any source of rising tokens will do.
//
// Every guarded write has one of four outcomes:
//
//   - nil: applied;
//   - [ErrStale]: refused, because a higher mark was seen; stop writing, a newer holder is at work;
//   - [ErrUnknown]: it may or may not have been applied; read back before you go on;
//   - any other error: certainly not applied.
//
// The rule is that of Martin Kleppmann, "How to do distributed locking",
// https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html, and of Mike Burrows, "The Chubby lock
// service for loosely-coupled distributed systems" (OSDI 2006), section 2.4, where the token is called a sequencer.
package guard

import (
	"context"
	"errors"
	"fmt"
)

var (
	// ErrStale is the error of a write that was refused because its resource has seen a higher token. The write was
	// not applied, and no later write with this token will be. The error found is a [*StaleError].
	ErrStale = errors.New("guard: stale token")

	// ErrNoToken is the error of what is no token: zero, a negative number, or a text that is not one in canonical
	// decimal form. Nothing was applied.
	ErrNoToken = errors.New("guard: no token")

	// ErrUnknown is the error of a write whose outcome nobody knows, such as one whose reply was lost: it may or may
	// not have been applied. It must not simply be run again; read the resource to find out.
	ErrUnknown = errors.New("guard: outcome unknown")
)

// Check is the rule of every guard: a token is accepted when it is at least as high as the highest one the resource
// has seen, where 0 means none. An equal token passes, since a holder writes more than once.
//
// It returns nil; a [*StaleError] when highest is greater than tok; an error that wraps [ErrNoToken] when tok is zero
// or negative; that of [CheckResource] when the resource has no valid name; or an error when highest is negative,
// which no mark can be. With highest 0 it checks the arguments alone, which guards do before any I/O.
//
// Check only compares. It protects nothing unless the comparison, the raise of the mark and the write are one atomic
// step: call it inside a transaction or under the lock that covers all three, never before it.
func Check(resource string, tok, highest Token) error {
	if err := CheckResource(resource); err != nil {
		return err
	}
	switch {
	case tok <= 0:
		return fmt.Errorf("%w: %d for %q; only a lock's holder has one, and it is greater than 0", ErrNoToken, int64(tok), resource)
	case highest < 0:
		return fmt.Errorf("guard: the mark of %q is %d, which no mark can be; the storage is damaged", resource, int64(highest))
	case tok < highest:
		return &StaleError{Resource: resource, Token: tok, Highest: highest}
	}
	return nil
}

// Sealer is what every guard is that keeps a mark. Its methods do nothing, and return the context's error, when ctx has
// ended before the call.
type Sealer interface {
	// Seal raises the mark of resource to tok without writing anything else. A new holder calls it before its first
	// read: without it, an older holder's write can still land between that read and the write that follows.
	// A token that is refused is reported as by [Check]; the mark is then unchanged. ctx governs the whole call.
	Seal(ctx context.Context, resource string, tok Token) error

	// Highest returns the mark of resource, 0 if it was never marked. The answer may be old when it arrives, so it is
	// good for reports and for finding out about [ErrUnknown], and not for deciding whether to write. A bad name is
	// refused as by [CheckResource].
	Highest(ctx context.Context, resource string) (Token, error)
}
