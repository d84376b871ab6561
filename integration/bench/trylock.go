package main

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/lock"
)

// tryLock measures how long it takes to learn that somebody else has the lock.
func (b *bench) tryLock(ctx context.Context) error {
	return withSites(ctx, b.dir, 2, func(_ *etcdtest.Cluster, sites []*site) error {
		holder, s := sites[0], sites[1]
		theirHeld, ourHeld := concurrency.NewMutex(holder.theirs, "held"), lock.NewMutex(holder.ours, "held")
		if err := theirHeld.Lock(ctx); err != nil {
			return err
		}
		h, err := ourHeld.Lock(ctx)
		if err != nil {
			return err
		}
		theirTry, ourTry := concurrency.NewMutex(s.theirs, "held"), lock.NewMutex(s.ours, "held")
		got, err := inTurn(ctx, b.size.rounds, b.size.slice,
			arm{workers: 1, op: func(ctx context.Context, _ int) error {
				return want(theirTry.TryLock(ctx), concurrency.ErrLocked)
			}},
			arm{workers: 1, op: func(ctx context.Context, _ int) error {
				_, err := ourTry.TryLock(ctx)
				return want(err, lock.ErrLocked)
			}})
		if err != nil {
			return err
		}
		b.report(latencies("TryLock on a held lock", got[0].median(), got[1].median()).atLeast(1.7))
		return errors.Join(h.Unlock(), theirHeld.Unlock(ctx))
	})
}

func want(err, wanted error) error {
	if errors.Is(err, wanted) {
		return nil
	}
	return fmt.Errorf("got %v, want %w", err, wanted)
}
