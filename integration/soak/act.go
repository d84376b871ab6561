package main

import (
	"context"
	"errors"
	"time"

	"github.com/fencedlock/fencedlock/lock"
)

// act does one of the things that programs do with locks.
func (c *crew) act(ctx context.Context, w *worker) error {
	const hot = 4 // names that are mostly locked
	name := c.shared[hot+w.rng.IntN(len(c.shared)-hot)]
	contended := c.shared[w.rng.IntN(hot)]
	other := c.workers[w.rng.IntN(len(c.workers))].own
	switch n := w.rng.IntN(100); {
	case n < 40:
		return c.cycle(ctx, w, name, 0)
	case n < 50:
		return c.do(ctx, w, name)
	case n < 70:
		return c.cycle(ctx, w, contended, time.Duration(w.rng.Int64N(int64(c.pause/10))))
	case n < 80:
		return c.try(ctx, w, contended)
	case n < 85:
		return c.try(ctx, w, other[w.rng.IntN(len(other))])
	case n < 95: // another session, or w's own, holds it
		return c.cutShort(ctx, w, other[w.rng.IntN(len(other))], c.pause/20)
	default:
		return c.cutShort(ctx, w, name, time.Duration(w.rng.Int64N(int64(2*time.Millisecond))))
	}
}

func (c *crew) cycle(ctx context.Context, w *worker, name string, hold time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	h, err := lock.NewMutex(w.s, name).Lock(ctx)
	if err != nil {
		return err
	}
	time.Sleep(hold)
	return c.unlock(h)
}

func (c *crew) do(ctx context.Context, w *worker, name string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := lock.NewMutex(w.s, name).Do(ctx, func(_ context.Context, h *lock.Held) error {
		h.Limit(time.Minute)
		return nil
	})
	if err == nil {
		c.tally.cycles.Add(1)
	}
	return err
}

func (c *crew) try(ctx context.Context, w *worker, name string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	h, err := lock.NewMutex(w.s, name).TryLock(ctx)
	if errors.Is(err, lock.ErrLocked) {
		c.tally.refused.Add(1)
		return nil
	}
	if err != nil {
		return err
	}
	return c.unlock(h)
}

// cutShort gives up waiting after d, or gets the lock and gives it back.
func (c *crew) cutShort(ctx context.Context, w *worker, name string, d time.Duration) error {
	waiting, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	h, err := lock.NewMutex(w.s, name).Lock(waiting)
	if errors.Is(err, context.DeadlineExceeded) && waiting.Err() != nil {
		c.tally.cancelled.Add(1)
		return nil
	}
	if err != nil {
		return err
	}
	return c.unlock(h)
}

// unlock is told the truth when etcd is slow: the session goes on trying, and a further call waits for that.
func (c *crew) unlock(h *lock.Held) error {
	err := h.Unlock()
	for n := 0; errors.Is(err, lock.ErrUnconfirmed) && n < 5; n++ {
		err = h.Unlock()
	}
	if err == nil {
		c.tally.cycles.Add(1)
	}
	return err
}
