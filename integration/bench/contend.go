package main

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
)

// baton measures how long a lock needs from one holder to the next, and finds two holders at one time.
type baton struct {
	holders  atomic.Int32
	released atomic.Int64    // when the last holder began to give the lock back, Unix time in ns
	took     []time.Duration // by each hand-over; guarded by the lock that is measured
}

// held is called with the lock by one who began to wait for it at since. It is a hand-over if that was before the last
// holder's release.
func (b *baton) held(since time.Time) (alone bool) {
	alone = b.holders.Add(1) == 1
	if last := b.released.Load(); last > since.UnixNano() {
		b.took = append(b.took, time.Duration(time.Now().UnixNano()-last))
	}
	b.holders.Add(-1)
	b.released.Store(time.Now().UnixNano())
	return alone
}

// contested makes an arm whose workers all want one lock; each has its own cycle for it.
func contested(cycles []cycle, b *baton) arm {
	return arm{workers: len(cycles), op: func(ctx context.Context, w int) error {
		since, alone := time.Now(), true
		err := cycles[w](ctx, func() { alone = b.held(since) })
		if err == nil && !alone {
			err = fmt.Errorf("worker %d holds the lock, and so does another", w)
		}
		return err
	}}
}

// contend measures n programs that want one lock all the time. With two of them it also shows how long hand-overs take.
func (b *bench) contend(n int, target float64) func(context.Context) error {
	return func(ctx context.Context) error {
		return withSites(ctx, b.dir, n, func(_ *etcdtest.Cluster, sites []*site) error {
			var theirs, ours []cycle
			for _, s := range sites {
				theirs, ours = append(theirs, s.theirMutex("contended")), append(ours, s.ourMutex("contended"))
			}
			var batons [2]baton
			got, err := inTurn(ctx, b.size.turns, b.size.queue, contested(theirs, &batons[0]), contested(ours, &batons[1]))
			if err != nil {
				return err
			}
			b.report(rates(fmt.Sprintf("%d contenders, sessions of their own", n), got[0].rate(), got[1].rate()).atLeast(target))
			if n == 2 {
				for i := range batons {
					slices.Sort(batons[i].took)
				}
				for _, q := range []float64{0.5, 0.9, 0.99} {
					b.report(latencies(fmt.Sprintf("  hand-over, quantile %.2f", q),
						quantile(batons[0].took, q), quantile(batons[1].took, q)))
				}
			}
			return nil
		})
	}
}

// oneSession measures n goroutines of one program that want one lock. Theirs have a session each, since etcd's mutex takes
// all goroutines of one session for the same holder.
func (b *bench) oneSession(n int) func(context.Context) error {
	return func(ctx context.Context) error {
		return withSites(ctx, b.dir, n, func(_ *etcdtest.Cluster, sites []*site) error {
			var theirs, ours []cycle
			for _, s := range sites {
				theirs, ours = append(theirs, s.theirMutex("shared")), append(ours, sites[0].ourMutex("shared"))
			}
			got, err := inTurn(ctx, b.size.turns, b.size.queue, contested(theirs, &baton{}), contested(ours, &baton{}))
			if err != nil {
				return err
			}
			b.report(rates(fmt.Sprintf("%d goroutines, ours on one session", n), got[0].rate(), got[1].rate()))
			return nil
		})
	}
}

// names measures n workers of one program, each of which has a lock of its own.
func (b *bench) names(n int) func(context.Context) error {
	return func(ctx context.Context) error {
		return withSites(ctx, b.dir, 1, func(_ *etcdtest.Cluster, sites []*site) error {
			var theirs, ours []cycle
			for i := range n {
				name := fmt.Sprintf("name-%d", i)
				theirs, ours = append(theirs, sites[0].theirMutex(name)), append(ours, sites[0].ourMutex(name))
			}
			got, err := inTurn(ctx, b.size.rounds, b.size.slice, alone(theirs...), alone(ours...))
			if err != nil {
				return err
			}
			b.report(rates(fmt.Sprintf("%d names, %[1]d workers", n), got[0].rate(), got[1].rate()).atLeast(0.85))
			return nil
		})
	}
}
