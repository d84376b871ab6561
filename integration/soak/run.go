package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"
)

// config is how much is done.
type config struct {
	sessions, names int
	held            int           // names that each session holds all the time
	clients         int           // that the sessions share
	pause           time.Duration // of a worker between two things that it does, on average
	life            int           // how many things a session does that does not last
	samples         int
	every           time.Duration // the time from a sample to the next
	cutEach         int           // connections are cut before each so many samples
	slack           slack

	leak func(context.Context, *crew) // called after each thing that was done; only for tests
}

// slack is how much more is no growth, as a fraction: of memory and goroutines, which go up and down by themselves, more than they
// were; of watches more than the sessions hold, since the client forgets one that is cancelled while it is made again after its
// connection was lost, and etcd keeps it until its key changes or the next connection is lost. Keys and leases have none.
type slack struct{ memory, goroutines, watches float64 }

// least is what etcd has when nothing is lost and nothing stays behind: the holds and the sessions' own keys, and a watch of each
// hold.
func (cfg config) least() counts {
	holds := cfg.sessions * cfg.held
	return counts{keys: holds + cfg.sessions, leases: cfg.sessions, watches: holds}
}

// full is what the command does. Two hundred sessions do about a hundred and forty things a second, which leaves two processors
// idle for most of the time.
func full(length time.Duration) config {
	const samples = 60
	return config{
		sessions: 200, names: 2000, held: 5, clients: 4,
		pause: time.Second, life: 60,
		samples: samples, every: length / samples, cutEach: 1,
		slack: slack{memory: 0.01, goroutines: 0.01, watches: 0.01},
	}
}

// run starts etcd, lets the crew work, and takes samples.
func (cfg config) run(ctx context.Context, out io.Writer) (_ *report, err error) {
	s, err := openSite(cfg.clients)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	c, err := newCrew(ctx, cfg, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	fmt.Fprintf(out, "%s, %s/%s, %d processors; %d sessions on %d clients, %d names, %d of them held all the time\n\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), cfg.sessions, cfg.clients, cfg.names, cfg.sessions*cfg.held)

	working, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	c.gate.Lock() // released by the first interval
	for _, w := range c.workers {
		wg.Go(func() {
			if err := c.work(working, w); err != nil {
				cancel(err)
			}
		})
	}
	r := &report{config: cfg, tally: c.tally}
	r.samples = make([]sample, 0, cfg.samples) // here and now, or it would count as growth
	begin := time.Now()
	for n := range cfg.samples {
		c.gate.Unlock()
		cutErr := c.interval(working, begin.Add(time.Duration(n+1)*cfg.every), n)
		c.gate.Lock()
		if err := errors.Join(cutErr, context.Cause(working)); err != nil {
			c.gate.Unlock()
			return nil, err
		}
		at := time.Since(begin)
		err := c.repair(working)
		var p sample
		if err == nil {
			p, err = s.take(working, c.least())
		}
		if err != nil {
			c.gate.Unlock()
			return nil, errors.Join(err, context.Cause(working))
		}
		p.at = at
		r.add(out, p)
	}
	cancel(nil)
	c.gate.Unlock()
	return r, nil
}

// interval lasts until the next sample, but never too short for the crew to work, and cuts the connections of two clients. The
// last client's are never cut, since a new connection clears away what has been left at etcd's end of the old one.
func (c *crew) interval(ctx context.Context, until time.Time, sample int) error {
	length := max(time.Until(until), c.every/4)
	for n := range 3 {
		select {
		case <-time.After(length / 3):
		case <-ctx.Done():
			return nil
		}
		if n < 2 && sample%c.cutEach == 0 {
			if err := c.site.server.cut(ctx, (2*sample+n)%(len(c.site.clients)-1)); err != nil {
				return err
			}
			c.tally.cuts.Add(1)
		}
	}
	return nil
}
