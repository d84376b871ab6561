package sqlmark

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencedlock/fencedlock/guard"
)

// DefaultRetries is with the pauses between them about one second.
const DefaultRetries = 20

// IdleLimit is how long a holder that is paused inside Do can block the next one. Longer than a pause for garbage
// collection, shorter than the usual lease.
const IdleLimit = 5 * time.Second

// Retry runs try until it succeeds or fails for good, at most once and max times more. An unknown outcome is one of the
// latter, whatever else it wraps. pkg begins the text of an error of its own.
func Retry(ctx context.Context, pkg string, max int, retryable func(error) bool, try func() error) error {
	for n := 0; ; n++ {
		err := try()
		if err == nil || errors.Is(err, guard.ErrUnknown) || !retryable(err) {
			return err
		}
		if n == max {
			return fmt.Errorf("%s: gave up after %d retries, each rolled back: %w", pkg, n, err)
		}
		if Pause(ctx, n) != nil {
			return Because(ctx, err)
		}
	}
}

// Because adds why the context ended if it has: what drivers return then does not always say so.
func Because(ctx context.Context, err error) error {
	for _, reason := range []error{ctx.Err(), context.Cause(ctx)} {
		if reason != nil && !errors.Is(err, reason) {
			err = fmt.Errorf("%w (%w)", err, reason)
		}
	}
	return err
}
