//go:build unix

// Command faults lets worker processes lock, on an etcd of three members, and change what the locks protect in every storage
// that there is a guard for, while a nemesis stops, kills, cuts, delays and restarts. Then it judges the history.
//
//	go run . -for 5m              guarded, and the two controls: this lock without guards, and etcd's own
//	go run . -for 5m -seed 42     the same schedule of faults again
//	go run . -mode guarded -for 1h
//
// It ends with 0 if the guarded run broke no promise, and each control lost acknowledged writes: one that did not shows that
// the faults were too kind. With 1 otherwise. With 2 if there is nothing to judge: a part could not be started, a kind of
// fault was drawn often and never struck, or guards had nothing to refuse. Nothing is skipped. (go run ends with 1 for each of the
// two, and prints the status.)
//
// A seed replays the schedule: which faults, when, and for how long. What they meet depends on the machine.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/fencedlock/fencedlock/integration/faults/internal/worker"
	"github.com/fencedlock/fencedlock/internal/child"
)

func main() {
	child.Main(roles)
	var p plan
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	flag.DurationVar(&p.length, "for", 5*time.Minute, "how long all of it takes, about; the longer, the more guards must have refused a write")
	flag.Uint64Var(&p.seed, "seed", 0, "the seed of the schedule; 0 draws one")
	flag.StringVar((*string)(&p.only), "mode", "", "only this one: guarded, unguarded or etcd")
	flag.StringVar(&p.dir, "dir", "", "an existing folder for histories and pictures; default is a new one")
	flag.IntVar(&p.workers, "workers", 6, "how many worker processes")
	flag.Parse()
	// Servers and their folders are to go with the program, whatever ends it. A second signal ends it at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop)
	err := p.check(flag.Args())
	v := unjudged
	if err == nil {
		v, err = p.run(ctx, os.Stdout)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "faults: %v\n", err)
	}
	os.Exit(int(v))
}

const usage = `Usage: faults [flags]
Workers lock and write while processes, networks, etcd and storages fail; then the history is judged.
Ends with 0 if all is as it should be, 1 if a promise was broken or a control did no harm, 2 if there was nothing to judge.

`

// plan is what is to be played.
type plan struct {
	length  time.Duration
	seed    uint64
	only    worker.Mode // "": all
	dir     string      // "": a new one
	workers int
}

// shortest is the shortest length with enough faults in it for each storage to be written.
const shortest = 30 * time.Second

// share is the part of the time that a mode gets. What is missing to 1 is for starting, ending and judging.
var share = []struct {
	mode worker.Mode
	part float64
}{{worker.Guarded, 0.55}, {worker.Unguarded, 0.15}, {worker.Etcd, 0.15}}

// check refuses what cannot be played, before anything is started.
func (p plan) check(args []string) error {
	known := p.only == ""
	for _, s := range share {
		known = known || p.only == s.mode
	}
	switch {
	case len(args) > 0:
		return fmt.Errorf("unexpected argument %q; flags only, such as -mode guarded", args[0])
	case !known:
		return fmt.Errorf("there is no mode %q; there are guarded, unguarded and etcd", p.only)
	case p.length < shortest:
		return fmt.Errorf("-for is %v, which is too short to show anything; the least is %v", p.length, shortest)
	case p.workers < 2:
		return fmt.Errorf("-workers is %d; at least 2 are needed, of whom some are stopped while others work", p.workers)
	}
	if p.dir == "" {
		return nil
	}
	in, err := os.Stat(p.dir)
	if err != nil {
		return fmt.Errorf("-dir: %w; make it first", err)
	}
	if !in.IsDir() {
		return fmt.Errorf("-dir: %s is no folder", p.dir)
	}
	for _, s := range share {
		if _, err := os.Stat(filepath.Join(p.dir, string(s.mode))); err == nil {
			return fmt.Errorf("-dir: %s has the histories of another run in it; take an empty folder", p.dir)
		}
	}
	return nil
}

// run plays all rounds and prints what came of them.
func (p plan) run(ctx context.Context, out io.Writer) (worst verdict, err error) {
	if p.seed == 0 {
		p.seed = rand.Uint64()
	}
	if p.dir == "" {
		if p.dir, err = os.MkdirTemp("", "fencedlock-histories-"); err != nil {
			return unjudged, err
		}
	}
	fmt.Fprintf(out, "seed %d; histories in %s\n", p.seed, p.dir)
	var results []*result
	for _, s := range share {
		part := s.part
		if p.only == s.mode {
			part = 0.8
		} else if p.only != "" {
			continue
		}
		r := round{mode: s.mode, seed: p.seed, length: time.Duration(float64(p.length) * part), workers: p.workers, dir: filepath.Join(p.dir, string(s.mode))}
		if err := os.Mkdir(r.dir, 0o755); err != nil {
			return unjudged, err
		}
		fmt.Fprintf(out, "\n%s: faults for %v …\n", titles[s.mode], r.length.Round(time.Second))
		res, err := r.run(ctx)
		if ctx.Err() != nil {
			return unjudged, fmt.Errorf("stopped before the end: %w; there is no verdict", context.Cause(ctx))
		}
		if err != nil {
			return unjudged, err
		}
		results = append(results, res)
		if err := res.explain(out, r.dir); err != nil {
			return unjudged, err
		}
		v, why := res.verdict()
		for _, w := range why {
			fmt.Fprintf(out, "  %s: %s\n", map[verdict]string{broken: "the faults were too kind", unjudged: "not judged"}[v], w)
		}
		if v == broken || worst == asItShould {
			worst = v
		}
	}
	table(out, results)
	conclude(out, worst, results)
	again := fmt.Sprintf("-seed %d -workers %d", p.seed, p.workers)
	if p.only != "" {
		again += " -mode " + string(p.only)
	}
	fmt.Fprintf(out, "the same faults again: make faults FAULTS_FOR=%v FAULTS='%s'\n", p.length, again)
	return worst, nil
}
