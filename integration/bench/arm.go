package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// An arm is one of several things that are measured in turn.
type arm struct {
	workers int
	op      func(ctx context.Context, worker int) error // what a worker does again and again
}

// outcome is what was measured of an arm.
type outcome struct {
	took  []time.Duration // by each operation that ended within its slice, ascending
	rates []float64       // operations per second, one for each slice
}

// inTurn runs the arms in many short slices, one arm at a time, so that a machine that becomes slower does so for all of
// them. Every second round goes backwards: else one arm would always run in the wake of the same other one.
func inTurn(ctx context.Context, rounds int, slice time.Duration, arms ...arm) ([]outcome, error) {
	outcomes := make([]outcome, len(arms))
	for _, a := range arms { // connections, streams and caches come into being
		if _, err := a.run(ctx, slice/4); err != nil {
			return nil, err
		}
	}
	for round := range rounds {
		for i := range arms {
			if round%2 == 1 {
				i = len(arms) - 1 - i
			}
			took, err := arms[i].run(ctx, slice)
			if err != nil {
				return nil, err
			}
			o := &outcomes[i]
			o.took = append(o.took, took...)
			o.rates = append(o.rates, float64(len(took))/slice.Seconds())
		}
	}
	for i := range outcomes {
		if len(outcomes[i].took) == 0 {
			return nil, fmt.Errorf("arm %d finished nothing in %d slices of %v", i, rounds, slice)
		}
		slices.Sort(outcomes[i].took)
		slices.Sort(outcomes[i].rates)
	}
	return outcomes, nil
}

// run lets the workers work for the length of one slice and returns how long each operation took that ended in it. It
// waits for those that end later, so that they do not disturb the next slice.
func (a arm) run(ctx context.Context, slice time.Duration) ([]time.Duration, error) {
	took := make([][]time.Duration, a.workers)
	errs := make([]error, a.workers)
	var wg sync.WaitGroup
	end := time.Now().Add(slice)
	for w := range a.workers {
		wg.Go(func() {
			for last := time.Now(); last.Before(end); {
				if errs[w] = a.op(ctx, w); errs[w] != nil {
					return
				}
				now := time.Now()
				if !now.After(end) {
					took[w] = append(took[w], now.Sub(last))
				}
				last = now
			}
		})
	}
	wg.Wait()
	return slices.Concat(took...), errors.Join(errs...)
}

func (o outcome) median() time.Duration { return quantile(o.took, 0.5) }

func (o outcome) rate() float64 { return quantile(o.rates, 0.5) }

// quantile returns the value below which the part q of sorted lies.
func quantile[T any](sorted []T, q float64) T {
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
