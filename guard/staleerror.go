package guard

import "fmt"

// StaleError says which token was refused and which higher one the resource has seen. It is found with [errors.As],
// and errors.Is(err, [ErrStale]) is true for it.
type StaleError struct {
	Resource string
	Token    Token // the one that was refused
	Highest  Token // the mark that was seen; it may be higher by now
}

// Error names the resource and both tokens.
func (e *StaleError) Error() string {
	return fmt.Sprintf("guard: stale token %d for %q: %d has been seen, so a newer holder is at work; stop writing",
		int64(e.Token), e.Resource, int64(e.Highest))
}

// Unwrap returns [ErrStale].
func (e *StaleError) Unwrap() error { return ErrStale }
