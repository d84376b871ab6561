//go:build unix

package worker

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

// locker is a session of either kind of lock.
type locker interface {
	lock(ctx context.Context, name string) (held, error)
	lease() clientv3.LeaseID
	err() error // why it is over
	close() error
}

// held is a hold of either kind.
type held interface {
	Token() guard.Token
	Err() error // whether it is still held, as far as the library can tell without I/O
	Unlock() error
}

func openLocker(ctx context.Context, c *clientv3.Client, cfg Config) (locker, error) {
	if cfg.Mode == Etcd {
		return openEtcdLocker(c, cfg)
	}
	s, err := session.New(ctx, c, &session.Options{TTL: cfg.TTL, Owner: cfg.Who, Namespace: cfg.Namespace})
	if err != nil {
		return nil, err
	}
	return ours{s}, nil
}

type ours struct{ s *session.Session }

func (o ours) lock(ctx context.Context, name string) (held, error) {
	h, err := lock.NewMutex(o.s, name).Lock(ctx)
	if err != nil {
		return nil, err
	}
	return h, nil
}
func (o ours) lease() clientv3.LeaseID { return o.s.Lease() }
func (o ours) err() error              { return o.s.Err() }
func (o ours) close() error            { return o.s.Close() }

// attentive is a locker whose waits end when an order needs the worker elsewhere.
type attentive struct {
	locker
	stops *stops
}

func (a attentive) lock(ctx context.Context, name string) (held, error) {
	ctx, done := a.stops.waiting(ctx, name)
	defer done()
	return a.locker.lock(ctx, name)
}
