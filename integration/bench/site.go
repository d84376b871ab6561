package main

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

// ttl is that of all sessions: the default of the package concurrency.
const ttl = 60 * time.Second

// A site stands for one program that takes locks: a client with a connection of its own, and a session of each library.
type site struct {
	client *clientv3.Client
	theirs *concurrency.Session
	ours   *session.Session
}

func newSite(ctx context.Context, cluster *etcdtest.Cluster) (_ *site, err error) {
	s := &site{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.client, err = cluster.NewClient(); err != nil {
		return nil, err
	}
	if s.theirs, err = concurrency.NewSession(s.client, concurrency.WithTTL(int(ttl.Seconds()))); err != nil {
		return nil, err
	}
	s.ours, err = session.New(ctx, s.client, &session.Options{TTL: ttl})
	return s, err
}

func (s *site) close() error {
	var errs []error
	if s.ours != nil {
		errs = append(errs, s.ours.Close())
	}
	if s.theirs != nil {
		errs = append(errs, s.theirs.Close())
	}
	if s.client != nil {
		errs = append(errs, s.client.Close())
	}
	return errors.Join(errs...)
}

// withSites calls f with n sites on a cluster of one member, and clears them away.
func withSites(ctx context.Context, dir string, n int, f func(*etcdtest.Cluster, []*site) error) (err error) {
	cluster, err := etcdtest.New(ctx, &etcdtest.Options{Dir: dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	sites := make([]*site, n)
	for i := range sites {
		if sites[i], err = newSite(ctx, cluster); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, sites[i].close()) }()
	}
	return f(cluster, sites)
}

// A cycle takes a lock, calls held and gives the lock back.
type cycle func(ctx context.Context, held func()) error

func (s *site) theirMutex(name string) cycle {
	m := concurrency.NewMutex(s.theirs, name)
	return func(ctx context.Context, held func()) error {
		if err := m.Lock(ctx); err != nil {
			return err
		}
		held()
		return m.Unlock(ctx)
	}
}

func (s *site) ourMutex(name string) cycle {
	m := lock.NewMutex(s.ours, name)
	return func(ctx context.Context, held func()) error {
		h, err := m.Lock(ctx)
		if err != nil {
			return err
		}
		held()
		return h.Unlock()
	}
}

// alone makes an arm whose workers each have a lock that nobody else wants.
func alone(cycles ...cycle) arm {
	return arm{workers: len(cycles), op: func(ctx context.Context, w int) error { return cycles[w](ctx, func() {}) }}
}
