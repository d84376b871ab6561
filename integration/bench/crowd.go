package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/lock"
)

// burden is what etcd carries.
type burden struct{ keys, watches int }

// crowd counts what many goroutines of one program that wait for one lock cost etcd, while another program holds it. Theirs
// have a session each, since etcd's mutex takes all goroutines of one session for the same holder.
func (b *bench) crowd(ctx context.Context) error {
	return withSites(ctx, b.dir, 2, func(_ *etcdtest.Cluster, sites []*site) error {
		holder, s, n := sites[0], sites[1], b.size.crowd
		h, err := lock.NewMutex(holder.ours, "crowded").Lock(ctx)
		if err != nil {
			return err
		}
		m := lock.NewMutex(s.ours, "crowded")
		ours, err := s.added(ctx, n, func(ctx context.Context) error {
			_, err := m.Lock(ctx)
			return err
		})
		if err = errors.Join(err, h.Unlock()); err != nil {
			return err
		}
		held := concurrency.NewMutex(holder.theirs, "crowded")
		if err := held.Lock(ctx); err != nil {
			return err
		}
		theirs, err := s.added(ctx, n, func(ctx context.Context) error {
			own, err := concurrency.NewSession(s.client, concurrency.WithTTL(int(ttl.Seconds())))
			if err != nil {
				return err
			}
			return errors.Join(concurrency.NewMutex(own, "crowded").Lock(ctx), own.Close())
		})
		if err = errors.Join(err, held.Unlock(ctx)); err != nil {
			return err
		}
		b.report(counts(fmt.Sprintf("%d goroutines wait for a lock: keys", n), theirs.keys, ours.keys))
		b.report(counts("  and watches", theirs.watches, ours.watches))
		return nil
	})
}

// added returns what n goroutines add to etcd's burden while they wait in call, which the end of its context ends.
func (s *site) added(ctx context.Context, n int, call func(context.Context) error) (burden, error) {
	before, err := s.settled(ctx)
	if err != nil {
		return burden{}, err
	}
	waiting, cancel := context.WithCancel(ctx)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = call(waiting) })
	}
	with, err := s.settled(ctx)
	cancel()
	wg.Wait()
	for _, e := range errs {
		if !errors.Is(e, context.Canceled) {
			return burden{}, fmt.Errorf("a goroutine that was to wait got %w", e)
		}
	}
	return burden{keys: with.keys - before.keys, watches: with.watches - before.watches}, err
}

// settled returns etcd's burden once it has not changed for half a second.
func (s *site) settled(ctx context.Context) (burden, error) {
	const tick, calm = 50 * time.Millisecond, 10
	var last burden
	for same := 0; same < calm; same++ {
		now, err := s.look(ctx)
		if err != nil {
			return burden{}, err
		}
		if now != last {
			last, same = now, 0
		}
		select {
		case <-time.After(tick):
		case <-ctx.Done():
			return burden{}, ctx.Err()
		}
	}
	return last, nil
}

func (s *site) look(ctx context.Context) (burden, error) {
	found, err := s.client.Get(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithCountOnly())
	if err != nil {
		return burden{}, err
	}
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		return burden{}, err
	}
	for _, f := range families {
		if f.GetName() == "etcd_debugging_mvcc_watcher_total" {
			return burden{keys: int(found.Count), watches: int(f.GetMetric()[0].GetGauge().GetValue())}, nil
		}
	}
	return burden{}, errors.New("etcd does not say how many watches it has")
}
