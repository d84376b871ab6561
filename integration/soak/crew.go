package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

const (
	namespace = "/fencedlock/"
	patience  = 30 * time.Second // for what must succeed
)

// A crew is the workers, each with a session.
type crew struct {
	config
	site    *site
	gate    sync.RWMutex // held by a worker while it works, for writing while nobody may
	workers []*worker
	shared  []string // names that nobody holds for long
	tally   *tally
}

// tally counts what was done.
type tally struct {
	cycles, refused, cancelled, closed, revoked, lost, cuts atomic.Int64
}

// all returns the numbers by what they count.
func (t *tally) all() map[string]int64 {
	return map[string]int64{
		"taken": t.cycles.Load(), "refused": t.refused.Load(), "cancelled": t.cancelled.Load(),
		"closed": t.closed.Load(), "revoked": t.revoked.Load(), "lost": t.lost.Load(), "cuts": t.cuts.Load(),
	}
}

func (t *tally) String() string {
	n := t.all()
	return fmt.Sprintf("%d locks taken and given back, %d refused, %d waits cancelled; %d sessions closed, %d revoked, %d lost; "+
		"connections of a client cut %d times", n["taken"], n["refused"], n["cancelled"], n["closed"], n["revoked"], n["lost"], n["cuts"])
}

// worker has one session at a time.
type worker struct {
	number int
	s      *session.Session
	own    []string     // names held for as long as the session lasts
	held   []*lock.Held // of these names
	turns  int
	rng    *rand.Rand
}

// newCrew opens all sessions.
func newCrew(ctx context.Context, cfg config, s *site) (*crew, error) {
	c := &crew{config: cfg, site: s, tally: &tally{}}
	for n := range cfg.names - cfg.sessions*cfg.held {
		c.shared = append(c.shared, fmt.Sprintf("shared/%d", n))
	}
	errs := make([]error, cfg.sessions)
	var wg sync.WaitGroup
	for i := range cfg.sessions {
		w := &worker{number: i, turns: i * cfg.life / cfg.sessions, rng: rand.New(rand.NewPCG(uint64(i), 1))}
		for n := range cfg.held {
			w.own = append(w.own, fmt.Sprintf("own/%d/%d", i, n))
		}
		c.workers = append(c.workers, w)
		wg.Go(func() { errs[i] = c.open(ctx, w) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func (c *crew) close() error {
	errs := make([]error, len(c.workers))
	var wg sync.WaitGroup
	for i, w := range c.workers {
		if w.s != nil {
			wg.Go(func() { errs[i] = w.s.Close() })
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

// open gives w a new session and its names.
func (c *crew) open(ctx context.Context, w *worker) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s, err := session.New(ctx, c.site.clients[w.number%len(c.site.clients)], &session.Options{Owner: "soak", Namespace: namespace})
	if err != nil {
		return err
	}
	w.s, w.held = s, nil
	if err := c.prime(ctx, w); err != nil {
		return err
	}
	for _, name := range w.own {
		h, err := lock.NewMutex(s, name).Lock(ctx)
		if err != nil {
			return err
		}
		w.held = append(w.held, h)
	}
	return nil
}

// prime makes the key that a session gets when a put was first not answered. Each would have it sooner or later, and their
// number would grow with chance.
func (c *crew) prime(ctx context.Context, w *worker) error {
	for n := 0; ; n++ {
		if err := c.cutShort(ctx, w, w.own[0], 100*time.Microsecond<<(n%6)); err != nil {
			return err
		}
		if there, err := c.site.hasEpoch(ctx, w.s.Lease()); there || err != nil {
			return err
		}
	}
}

// reopen ends the session of w, by Close or by force, or clears one away that was lost, and opens another.
func (c *crew) reopen(ctx context.Context, w *worker, byForce bool) error {
	lost := w.s.Err() != nil
	if byForce && !lost {
		if _, err := c.site.admin.Revoke(ctx, w.s.Lease()); err != nil {
			return err
		}
		select {
		case <-w.s.Context().Done():
		case <-time.After(patience):
			return errors.New("a session did not notice that its lease was revoked")
		}
		for _, h := range w.held {
			if err := h.Unlock(); !errors.Is(err, lock.ErrLost) {
				return fmt.Errorf("giving back a lock whose lease was revoked: %w", err)
			}
		}
		c.tally.revoked.Add(1)
	}
	if err := w.s.Close(); err != nil && !byForce && !lost {
		return err
	}
	switch {
	case lost:
		c.tally.lost.Add(1)
	case !byForce:
		c.tally.closed.Add(1)
	}
	return c.open(ctx, w)
}

// whole tells whether w has its session and its holds still.
func (w *worker) whole() bool {
	for _, h := range w.held {
		if h.Err() != nil {
			return false
		}
	}
	return w.s.Err() == nil && len(w.held) == len(w.own)
}

// repair opens sessions that were lost, and renews all leases, since the first renewal, and the first on a new connection, opens a
// stream and with it a goroutine. Nobody works meanwhile.
func (c *crew) repair(ctx context.Context) error {
	for _, w := range c.workers {
		if !w.whole() {
			if err := c.reopen(ctx, w, false); err != nil {
				return err
			}
		}
		w.s.Internal().RenewNow(ctx)
	}
	return nil
}

// work takes one turn after the other until ctx ends.
func (c *crew) work(ctx context.Context, w *worker) error {
	for {
		pause := time.NewTimer(c.pause/2 + time.Duration(w.rng.Int64N(int64(c.pause))))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return nil
		}
		c.gate.RLock()
		err := c.turn(ctx, w)
		c.gate.RUnlock()
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("worker %d: %w", w.number, err)
		}
	}
}

// turn does one thing. Half of the sessions last; the others are closed after some turns, every second time by force.
func (c *crew) turn(ctx context.Context, w *worker) error {
	w.turns++
	over := w.number%2 == 0 && w.turns%c.life == 0
	if over || !w.whole() {
		return c.reopen(ctx, w, over && w.turns/c.life%2 == 1)
	}
	err := c.act(ctx, w)
	if err != nil && w.s.Err() != nil {
		return nil // the next turn opens another
	}
	if c.leak != nil {
		c.leak(ctx, c)
	}
	return err
}
