//go:build unix

package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/fencedlock/fencedlock/integration/faults/internal/check"
	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
	"github.com/fencedlock/fencedlock/integration/faults/internal/store"
	"github.com/fencedlock/fencedlock/integration/faults/internal/worker"
)

const (
	ttl       = 2 * time.Second // the shortest that etcd grants
	namespace = "/faults/"
	// calmLimit is more than all locks can take once all is calm: each waiter waits for all others at each.
	calmLimit = 60 * time.Second
)

// round is one run in one mode.
type round struct {
	mode    worker.Mode
	seed    uint64
	length  time.Duration
	workers int
	dir     string // for histories and pictures; it must exist
}

// result is what came of it.
type result struct {
	mode       worker.Mode
	length     time.Duration
	faults     map[string]tally
	holds      int
	outcomes   map[history.Outcome]int
	violations []check.Violation
	events     []history.Event
}

// run plays the round. An error says that it could not be played, which is no verdict.
func (r round) run(ctx context.Context) (*result, error) {
	res := &result{mode: r.mode, length: r.length}
	log, err := os.Create(filepath.Join(r.dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s := newStage(ctx, log)
	if err = s.do(func() { r.play(s, res) }); err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w; more is in %s", r.mode, err, log.Name())
	}
	if res.events, err = history.Merge(filepath.Join(r.dir, "parts")); err != nil {
		return nil, err
	}
	if err := history.WriteFile(filepath.Join(r.dir, "history.jsonl"), res.events); err != nil {
		return nil, err
	}
	res.outcomes = make(map[history.Outcome]int)
	for _, e := range res.events {
		switch e.Kind {
		case history.Got:
			res.holds++
		case history.Wrote:
			res.outcomes[e.Outcome]++
		}
	}
	res.violations = check.All(res.events, check.Options{TTL: ttl})
	return res, nil
}

func mustMkdir(s *stage, dir string) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		s.Fatal(err)
	}
}

func (r round) play(s *stage, res *result) {
	parts := filepath.Join(r.dir, "parts")
	mustMkdir(s, parts)
	rec, err := history.NewRecorder(filepath.Join(parts, "nemesis.jsonl"), "nemesis")
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := rec.Close(); err != nil {
			s.Error(err)
		}
	})
	site := openSite(s, r.mode == worker.Guarded)
	cfg := worker.Config{Mode: r.mode, Seed: r.seed, Namespace: namespace, TTL: ttl, Places: site.places}
	for _, k := range store.Kinds() {
		cfg.Resources = append(cfg.Resources, k.Resource())
	}
	ctx, stop := context.WithCancel(s.Context())
	var watching sync.WaitGroup
	watching.Go(func() { watchStalls(ctx, rec, history.Now, time.Sleep) })
	s.Cleanup(func() {
		stop()
		watching.Wait()
	})
	n := newNemesis(s, r, site, rec, cfg.Resources)
	for i := range r.workers {
		n.crew = append(n.crew, hire(s, site, cfg, parts, i))
	}
	n.run(s.Context(), r.seed, r.length)
	if s.Context().Err() != nil { // something failed, or the user wants to go
		s.FailNow()
	}
	r.calm(s, n)
	r.end(s, n)
	res.faults = maps.Clone(n.tally)
}

// queue is the prefix of a lock's keys.
func (r round) queue(name string) string {
	if r.mode == worker.Etcd {
		return namespace + name + "/"
	}
	return namespace + name + "%/"
}

// calm ends all faults, and lets every worker take every lock and write every resource.
func (r round) calm(s *stage, n *nemesis) {
	for _, m := range n.crew {
		m.heal()
		m.now().p.Continue()
	}
	healed := time.Now()
	// What was lost with connections shows within a TTL; the storages need a moment, too.
	time.Sleep(ttl)
	n.rec.Add(history.Event{Kind: history.Calm})
	for _, m := range n.crew {
		m.now().must("calm")
	}
	for _, m := range n.crew {
		if l := m.now(); !l.said("calm", calmLimit) {
			n.rec.Add(history.Event{Kind: history.Over, Name: "after the end of all faults", Err: l.who + " does not get through"})
		}
	}
	// The sessions live on, so only they can have deleted what they left behind.
	time.Sleep(time.Until(healed.Add(truce)))
	n.leftOnce(s.Context())
	for _, m := range n.crew {
		l := m.now()
		l.must("finish")
		l.p.Expect("done", calmLimit)
		if err := l.p.Wait(calmLimit); err != nil {
			s.Errorf("%s: %v", l.who, err)
		}
	}
}

// end reads what the resources hold, and looks for what is left behind.
func (r round) end(s *stage, n *nemesis) {
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	left := func(what string, found []string) {
		for _, f := range found {
			n.rec.Add(history.Event{Kind: history.Over, Name: what, Err: f})
		}
	}
	// Before a Guard is made, which cleans up.
	killed := slices.ContainsFunc(n.crew, func(m *mate) bool { return m.ends > 0 })
	files, err := store.FilesLeft(n.site.direct, r.mode == worker.Guarded, killed)
	if err != nil {
		s.Fatal(err)
	}
	left("file", files)
	for _, k := range store.Kinds() {
		st, err := k.Open(ctx, n.site.direct, r.mode == worker.Guarded)
		if err != nil {
			s.Fatalf("%s: %v", k.Name, err)
		}
		d, err := st.Read(ctx, k.Resource())
		if err != nil {
			s.Fatalf("%s: %v", k.Name, err)
		}
		mark, err := st.Highest(ctx, k.Resource())
		if err != nil {
			s.Fatalf("%s: %v", k.Name, err)
		}
		journal, err := st.Journal(ctx, k.Resource())
		if err != nil {
			s.Fatalf("%s: %v", k.Name, err)
		}
		n.rec.Add(history.Event{Kind: history.Final, Name: k.Resource(), Doc: &d, Journal: journal, Token: int64(mark)})
		if err := st.Close(); err != nil {
			s.Errorf("%s: %v", k.Name, err)
		}
	}
	found, err := leftInEtcd(ctx, n.site.client)
	if err != nil {
		s.Fatal(err)
	}
	left("key or lease", found)
}
