package lease

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fencedlock/fencedlock/internal/clock"
)

// openBound is how long Open tries when its context has no deadline.
const openBound = 10 * time.Second

// Open asks for a lease and starts to keep it alive. ctx bounds the call only.
func Open(ctx context.Context, cfg Config) (*Lease, error) {
	// Not clientv3.RetryLeaseClient, which repeats up to a hundred times what is
	// Unavailable, every 25 ms: attempts are counted, limited and spaced here.
	return open(ctx, cfg, pb.NewLeaseClient(cfg.Client.ActiveConnection()))
}

func open(ctx context.Context, cfg Config, remote pb.LeaseClient) (*Lease, error) {
	l := &Lease{
		cfg:      cfg,
		remote:   remote,
		now:      clock.From(ctx),
		id:       newID(),
		ttl:      cfg.TTL,
		patience: newPatience(cfg.TTL),
		renewNow: make(chan chan struct{}),
		hurry:    make(chan struct{}),
	}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, openBound)
		defer cancel()
	}
	if err := l.grant(ctx); err != nil {
		l.end(ErrClosed)
		return nil, fmt.Errorf("session: no lease from etcd at %v: %w", cfg.Client.Endpoints(), err)
	}
	l.epoch.key = epochKey(cfg.Namespace, l.id)
	l.start()
	return l, nil
}

// newID chooses the lease's number, so that a grant whose reply was lost can be
// asked for again, and revoked if nobody wants it any more. It comes from the
// system: copies of a virtual machine that was saved while it ran have the same
// math/rand, and would share the lease.
func newID() clientv3.LeaseID {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return clientv3.LeaseID(max(1, binary.BigEndian.Uint64(b[:])>>1))
}

// grant gets the lease and sets the first deadline, counted from the sending of
// the request. When a slow reply has used up more than a third of the lease, it
// is renewed first: nobody holds anything yet, so that does no harm even after
// the deadline, if the server still has the lease.
func (l *Lease) grant(ctx context.Context) error {
	sent, granted, err := l.ask(ctx)
	for n := 0; err == nil; n++ {
		l.ttl, l.deadline, l.failure = granted, sent+granted-margin(granted), nil
		left := l.deadline - l.now()
		if left >= granted*2/3 || n > 0 && left > 0 {
			l.patience.fit(granted)
			return nil
		}
		sent, granted, err = l.take(ctx)
	}
	return err
}

// ask sends the request for the lease until it is answered. It returns when the
// answered request was sent and what was granted.
func (l *Lease) ask(ctx context.Context) (sent, granted time.Duration, err error) {
	uncertain := false
	for n := 0; ; n++ {
		limit := l.patience.limit()
		sent = l.now()
		attempt, cancel := context.WithTimeout(ctx, limit)
		resp, err := l.remote.LeaseGrant(attempt, &pb.LeaseGrantRequest{ID: int64(l.id), TTL: seconds(l.cfg.TTL)})
		cancel()
		took := l.now() - sent
		if err == nil {
			l.patience.answered(took)
			return sent, time.Duration(resp.TTL) * time.Second, nil
		}
		if errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseExist) {
			// A request before this one was granted. It need not be one that is
			// known here: the client repeats some by itself, with a new token for
			// example. That another process drew the same 63 bits is not to be
			// expected.
			return l.take(ctx)
		}
		l.patience.failed(limit, took)
		err = clientv3.ContextError(attempt, err)
		// etcd checks its quota again after it has applied a grant.
		uncertain = uncertain || !Certain(err) || errors.Is(err, rpctypes.ErrNoSpace)
		if l.cfg.Client.Ctx().Err() != nil {
			err = errClientClosed
		} else if !Final(err) && pause(ctx, l.cfg.TTL, n) == nil {
			continue
		}
		if uncertain {
			l.abandon()
		}
		return 0, 0, because(ctx, err)
	}
}

// take renews the lease that has been granted, until that is answered. It
// returns when the answered request was sent and the lease's length.
func (l *Lease) take(ctx context.Context) (sent, granted time.Duration, err error) {
	for n := 0; ; n++ {
		r := l.exchange(ctx, nil)
		r.on.drop()
		switch {
		case r.err == nil && r.ttl > 0:
			return r.sent, r.ttl, nil
		case r.err == nil:
			return 0, 0, errors.New("the lease had lapsed before its first renewal was answered: etcd is slower than the TTL, ask for a longer one")
		case pause(ctx, l.cfg.TTL, n) != nil:
			l.abandon()
			return 0, 0, because(ctx, r.err)
		}
	}
}

// because joins the end of ctx, if it has ended, with what went wrong last.
func because(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		return fmt.Errorf("%w (last: %w)", ended, err)
	}
	return err
}

// abandon revokes a lease that may have been granted and that nobody waits for,
// beside the caller and within a moment; else it lapses by itself.
func (l *Lease) abandon() {
	go func() {
		if err := l.revoke(0); err != nil {
			l.cfg.Logger.Info("session: a lease that nobody uses lapses by itself", zap.Error(err))
		}
	}()
}

func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
