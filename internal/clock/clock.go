// Package clock tells how much time has passed on this machine, the time that
// it slept included. Leases expire on the server while a laptop or a virtual
// machine is suspended, and the clock behind time.Now stands still meanwhile.
package clock

import (
	"context"
	"time"
)

// A Clock returns the time since some fixed moment of the past. It never goes
// back and does not follow changes of the wall clock. Only differences between
// two of its readings mean anything.
type Clock func() time.Duration

type key struct{}

// With returns a context that makes From return c: tests give a session a
// clock of their own this way.
func With(ctx context.Context, c Clock) context.Context {
	return context.WithValue(ctx, key{}, c)
}

// From returns the clock that With put into ctx, or this machine's.
func From(ctx context.Context) Clock {
	if c, ok := ctx.Value(key{}).(Clock); ok {
		return c
	}
	return SinceBoot
}

var start = time.Now()

// sinceStart is the clock of machines that offer none that counts sleep.
func sinceStart() time.Duration { return time.Since(start) }
