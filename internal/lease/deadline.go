package lease

import (
	"context"
	"fmt"
	"time"
)

// tick is how often the clock is looked at even if no timer is due: timers
// stand still while the machine sleeps, the clock does not.
const tick = 500 * time.Millisecond

// margin is what the local deadline is earlier than the server's: a tenth of
// the lease, at most a second, for the time until a goroutine is scheduled and
// a cancelled context is noticed, and one per cent for clocks that run at
// different rates.
func margin(ttl time.Duration) time.Duration {
	return min(ttl/10, time.Second) + ttl/100
}

// Err returns why the lease is over, nil while it can be trusted. It looks at
// the clock, so it is true even when the process was paused and Context has
// not been woken yet.
func (l *Lease) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.look()
	return l.over
}

// Remaining returns how long the lease can still be trusted if no renewal
// succeeds, 0 when it is over.
func (l *Lease) Remaining() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.look()
}

// look ends the lease if its deadline has passed, and returns what is left. l.mu
// is held.
func (l *Lease) look() time.Duration {
	if l.over != nil {
		return 0
	}
	left := l.deadline - l.now()
	if left > 0 {
		return left
	}
	err := fmt.Errorf("%w: lease %x: etcd has not acknowledged a renewal in time (TTL %v)", ErrExpired, int64(l.id), l.ttl)
	if l.failure != nil {
		err = fmt.Errorf("%w: %w", err, l.failure)
	}
	l.endLocked(err)
	return 0
}

// end makes err the reason why the lease is over, unless there is one.
func (l *Lease) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endLocked(err)
}

func (l *Lease) endLocked(err error) {
	if l.over == nil {
		l.over = err
		l.cancel(err)
	}
}

// acknowledged moves the deadline for a renewal that was sent at sent. The
// server counts from a later moment, when the request arrived, so the deadline
// is never later than the server's. A reply that comes after the old deadline
// changes nothing: the lease is over.
func (l *Lease) acknowledged(sent, ttl time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.look()
	if l.over == nil {
		l.deadline = max(l.deadline, sent+ttl-margin(ttl))
		l.failure = nil
	}
}

// watchDeadline ends the lease at its deadline.
func (l *Lease) watchDeadline(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			timer.Reset(min(l.Remaining(), tick))
		}
	}
}
