// Package lease keeps one etcd lease alive and knows, from this machine's
// clock alone, until when it can be trusted. It has what the packages session
// and lock share and users need not see: attempts with limits, watches that
// are never relied on, and the sweeper, which makes writes harmless whose
// replies were lost.
package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fencedlock/fencedlock/internal/clock"
)

var (
	// ErrExpired and ErrClosed are session.ErrExpired and session.ErrClosed.
	ErrExpired = errors.New("session: expired")
	ErrClosed  = errors.New("session: closed")
)

// Config is what a lease is made from. All fields are set and valid.
type Config struct {
	Client    *clientv3.Client
	TTL       time.Duration
	Owner     string
	Namespace string
	Logger    *zap.Logger
}

// A Lease is an etcd lease that goroutines of its own keep alive until it is
// closed or can no longer be trusted. It never revives.
type Lease struct {
	cfg      Config
	remote   pb.LeaseClient
	now      clock.Clock
	id       clientv3.LeaseID
	ttl      time.Duration // granted
	patience *patience

	ctx      context.Context
	cancel   context.CancelCauseFunc
	renewNow chan chan struct{}
	revision atomic.Int64 // the highest seen in a linearizable reply
	watchGen atomic.Int64 // names the stream that new watches share

	mu       sync.Mutex
	deadline time.Duration  // on now's scale; guarded by mu
	over     error          // why the lease ended; guarded by mu
	lastSent time.Duration  // when the last renewal was sent, answered or not; guarded by mu
	failure  error          // of the last renewal; guarded by mu
	wg       sync.WaitGroup // of Go

	watches sync.WaitGroup // of Watch
	hurry   chan struct{}  // closed when Close has waited for watches for long enough

	epoch   epoch
	sweeper sweeper

	closing  sync.Once
	closeErr error

	locksOnce sync.Once
	locks     any
}

// ID returns the lease's number in etcd.
func (l *Lease) ID() clientv3.LeaseID { return l.id }

// TTL returns the length that the server granted.
func (l *Lease) TTL() time.Duration { return l.ttl }

// Client returns the client that the lease was made with.
func (l *Lease) Client() *clientv3.Client { return l.cfg.Client }

// Owner returns the label for people.
func (l *Lease) Owner() string { return l.cfg.Owner }

// Namespace returns the prefix of all keys.
func (l *Lease) Namespace() string { return l.cfg.Namespace }

// Logger is never nil.
func (l *Lease) Logger() *zap.Logger { return l.cfg.Logger }

// Now reads the clock of the lease's deadline.
func (l *Lease) Now() time.Duration { return l.now() }

// Context ends when the lease can no longer be trusted.
func (l *Lease) Context() context.Context { return l.ctx }

// Locks returns what the package lock keeps for this lease, made at the first
// call.
func (l *Lease) Locks(create func() any) any {
	l.locksOnce.Do(func() { l.locks = create() })
	return l.locks
}

// Go runs f beside the lease: f returns soon after its context, which is the
// lease's, has ended, and Close waits for it. It reports whether f was started,
// which it is not when the lease is over.
func (l *Lease) Go(f func(ctx context.Context)) bool { return l.beside(&l.wg, f) }

func (l *Lease) beside(wg *sync.WaitGroup, f func(ctx context.Context)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over != nil {
		return false
	}
	wg.Go(func() { f(l.ctx) })
	return true
}

// start begins to keep a granted lease alive.
func (l *Lease) start() {
	l.Go(l.renewLoop)
	l.Go(l.watchDeadline)
	l.Go(func(ctx context.Context) {
		select {
		case <-l.cfg.Client.Ctx().Done():
			l.end(fmt.Errorf("%w: lease %x: the etcd client was closed", ErrExpired, int64(l.id)))
		case <-ctx.Done():
		}
	})
}

// Close ends the lease, waits for its goroutines and revokes it on the server.
// All calls return the same error.
func (l *Lease) Close() error {
	l.closing.Do(func() {
		bound := l.rest()
		if l.Err() != nil {
			bound = 0
		}
		l.end(ErrClosed)
		l.wg.Wait()
		l.closeErr = l.revoke(bound)
		defer time.AfterFunc(min(l.patience.limit(), time.Second), func() { close(l.hurry) }).Stop()
		l.watches.Wait()
	})
	return l.closeErr
}

// rest returns how long the server may keep the lease without a renewal.
func (l *Lease) rest() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	// A renewal without a reply may have arrived all the same.
	return max(0, max(l.deadline+margin(l.ttl), l.lastSent+l.ttl)-l.now())
}

// revoke tells the server to forget the lease, until it has answered or bound
// has passed; after that, one attempt is made all the same, since a server that
// changed its leader keeps a lease for longer.
func (l *Lease) revoke(bound time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), max(bound, min(l.patience.limit(), time.Second)))
	defer cancel()
	var err error
	for n := 0; ; n++ {
		if l.cfg.Client.Ctx().Err() != nil {
			err = errors.New("the etcd client was closed before the session")
			break
		}
		attempt, stop := context.WithTimeout(ctx, l.patience.limit())
		_, err = l.remote.LeaseRevoke(attempt, &pb.LeaseRevokeRequest{ID: int64(l.id)})
		stop()
		if err == nil || isLeaseNotFound(err) {
			return nil
		}
		if Final(err) || bound == 0 || pause(ctx, l.ttl, n) != nil {
			break
		}
	}
	return fmt.Errorf("session: lease %x was abandoned, not revoked; its locks are free when it lapses, in about %v: %w",
		int64(l.id), l.rest().Round(time.Millisecond), err)
}
