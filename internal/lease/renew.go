package lease

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"
)

// renewLoop renews the lease at a third of its length, counted from the sending
// of the last renewal that was acknowledged, and sooner after a failure.
func (l *Lease) renewLoop(ctx context.Context) {
	var s *stream
	defer func() { s.drop() }()
	timer := time.NewTimer(max(0, l.Remaining()-(l.ttl*2/3-margin(l.ttl))))
	defer timer.Stop()
	for failures := 0; ; {
		var waiter chan struct{}
		select {
		case <-ctx.Done():
			return
		case waiter = <-l.renewNow:
		case <-timer.C:
		}
		r := l.exchange(ctx, s)
		s = r.on
		l.learn(r)
		if waiter != nil {
			close(waiter)
		}
		if ctx.Err() != nil {
			return
		}
		if r.err == nil {
			failures = 0
			timer.Reset(max(0, l.ttl/3-(l.now()-r.sent)))
			continue
		}
		l.failed(r.err)
		timer.Reset(backoff(l.ttl, failures))
		failures++
	}
}

// learn draws the consequences of a renewal that was answered.
func (l *Lease) learn(r renewal) {
	switch {
	case r.err != nil:
	case r.ttl > 0:
		l.acknowledged(r.sent, r.ttl)
	default:
		l.end(fmt.Errorf("%w: lease %x is no longer known to etcd: it lapsed there or was revoked", ErrExpired, int64(l.id)))
	}
}

// failed remembers why a renewal failed, for the error at the deadline.
func (l *Lease) failed(err error) {
	l.mu.Lock()
	l.failure = err
	left := l.deadline - l.now() // not Remaining: there may be no deadline yet
	l.mu.Unlock()
	l.cfg.Logger.Warn("session: a renewal failed and is tried again", zap.Error(err),
		zap.Int64("lease", int64(l.id)), zap.Duration("remaining", max(0, left)))
}

// RenewNow renews the lease and waits for the outcome of the attempt, so that
// Err then knows whether the server still has the lease.
func (l *Lease) RenewNow(ctx context.Context) {
	done := make(chan struct{})
	select {
	case l.renewNow <- done:
	case <-ctx.Done():
		return
	case <-l.ctx.Done():
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	case <-l.ctx.Done():
	}
}
