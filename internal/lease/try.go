package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

var (
	errClientClosed = errors.New("the etcd client is closed")
	errNoAnswer     = errors.New("etcd has not answered in time")
)

// Try sends one request and waits for its reply until ctx or the lease ends or
// the patience for one attempt is used up. send returns the reply's header; it
// sends a transaction or a linearizable read, nothing that a lagging member
// could answer.
//
// A reply from an older revision than one known when the request was sent means
// that etcd was restored from a backup or that its members diverged: it ends
// the lease, since nothing that was granted before can be relied on.
func (l *Lease) Try(ctx context.Context, send func(ctx context.Context) (*pb.ResponseHeader, error)) error {
	// The clock is a system call. Who relies on the lease looks at it after the
	// reply; an attempt that a lapsed lease sends does no harm.
	if l.ctx.Err() != nil {
		return l.Err()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	known, limit, sent := l.revision.Load(), l.patience.limit(), time.Now()
	// A deadline would be sent along and cost the server a timer.
	attempt, cancel := context.WithCancel(ctx)
	defer cancel()
	defer time.AfterFunc(limit, cancel).Stop()
	defer context.AfterFunc(l.ctx, cancel)()
	header, err := send(attempt)
	if err != nil {
		return l.explain(ctx, attempt, err, func() { l.patience.failed(limit, time.Since(sent)) })
	}
	l.patience.answered(time.Since(sent))
	if header.Revision < known {
		l.end(fmt.Errorf("%w: lease %x: etcd answered at revision %d after it had been at %d: it was restored from a backup "+
			"without raising the revision, or its members have diverged", ErrExpired, int64(l.id), header.Revision, known))
		return l.Err()
	}
	for header.Revision > known && !l.revision.CompareAndSwap(known, header.Revision) {
		known = l.revision.Load()
	}
	return nil
}

// explain finds the error that says most about why an attempt failed.
func (l *Lease) explain(ctx, attempt context.Context, err error, timedOut func()) error {
	switch {
	case isLeaseNotFound(err):
		l.end(fmt.Errorf("%w: lease %x is no longer known to etcd: it lapsed there or was revoked", ErrExpired, int64(l.id)))
		return l.Err()
	case l.Err() != nil:
		return l.Err()
	case ctx.Err() != nil:
		return ctx.Err()
	case l.cfg.Client.Ctx().Err() != nil:
		return errClientClosed
	case attempt.Err() != nil:
		timedOut()
		return l.noAnswer()
	}
	return err
}

func (l *Lease) noAnswer() error {
	return fmt.Errorf("%w (endpoints %v)", errNoAnswer, l.cfg.Client.Endpoints())
}

// Pause waits before attempt n is repeated, n from 0. It returns an error when
// ctx or the lease ends first.
func (l *Lease) Pause(ctx context.Context, n int) error {
	wait, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	if pause(wait, l.ttl, n) == nil {
		return nil
	}
	if err := l.Err(); err != nil {
		return err
	}
	return ctx.Err()
}

// Retry calls attempt until it succeeds, fails for a reason that cannot be
// cured by trying again, or ctx or the lease ends. attempt uses Try.
func (l *Lease) Retry(ctx context.Context, attempt func() error) error {
	for n := 0; ; n++ {
		err := attempt()
		if err == nil || Final(err) {
			return err
		}
		if ended := l.Pause(ctx, n); ended != nil {
			return ended
		}
	}
}
