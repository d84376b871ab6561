package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
)

// aging measures whether a lock becomes slower by being used, while etcd is not compacted. The old store is measured in turn
// with a fresh one, so that the machine's drift in between plays no part.
func (b *bench) aging(ctx context.Context) error {
	return withSites(ctx, b.dir, 1, func(_ *etcdtest.Cluster, old []*site) error {
		theirs, ours := old[0].theirMutex("aging"), old[0].ourMutex("aging")
		if err := repeat(ctx, b.size.cycles, theirs, ours); err != nil {
			return err
		}
		return withSites(ctx, b.dir, 1, func(_ *etcdtest.Cluster, fresh []*site) error {
			got, err := inTurn(ctx, b.size.rounds, b.size.slice/2,
				alone(theirs), alone(fresh[0].theirMutex("aging")), alone(ours), alone(fresh[0].ourMutex("aging")))
			if err != nil {
				return err
			}
			grown := func(old, fresh outcome) float64 { return float64(old.median()) / float64(fresh.median()) }
			r := row{
				what:   fmt.Sprintf("ours after %d cycles, against before", b.size.cycles),
				theirs: fmt.Sprintf("x %.2f", grown(got[0], got[1])),
				ours:   fmt.Sprintf("x %.2f", grown(got[2], got[3])),
				ratio:  grown(got[2], got[3]),
			}
			b.report(r.atMost(1.10))
			return nil
		})
	})
}

// repeat runs each cycle n times, all of them side by side.
func repeat(ctx context.Context, n int, cycles ...cycle) error {
	errs := make(chan error, len(cycles))
	var wg sync.WaitGroup
	for _, c := range cycles {
		wg.Go(func() {
			for range n {
				if err := c(ctx, func() {}); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs
}
