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
// fault was drawn often and never struck, or a guard had nothing to do. Nothing is skipped.
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
	"time"

	"github.com/fencedlock/fencedlock/integration/faults/internal/worker"
	"github.com/fencedlock/fencedlock/internal/child"
)

func main() {
	child.Main(roles)
	length := flag.Duration("for", 5*time.Minute, "how long all of it takes, about")
	seed := flag.Uint64("seed", 0, "the seed of the schedule; 0 draws one")
	mode := flag.String("mode", "", "only this one: guarded, unguarded or etcd")
	dir := flag.String("dir", "", "an existing folder for histories and pictures; default is a new one")
	workers := flag.Int("workers", 6, "how many worker processes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	v, err := run(ctx, os.Stdout, *length, *seed, worker.Mode(*mode), *dir, *workers)
	if err != nil {
		fmt.Fprintf(os.Stderr, "faults: %v\n", err)
		v = unjudged
	}
	os.Exit(int(v))
}

// shortest is the shortest length with enough faults in it to show something.
const shortest = 30 * time.Second

// share is the part of the time that a mode gets. What is missing to 1 is for starting, ending and judging.
var share = []struct {
	mode worker.Mode
	part float64
}{{worker.Guarded, 0.55}, {worker.Unguarded, 0.15}, {worker.Etcd, 0.15}}

// run plays all rounds and prints what came of them.
func run(ctx context.Context, out io.Writer, length time.Duration, seed uint64, only worker.Mode, dir string, workers int) (worst verdict, err error) {
	if length < shortest {
		return unjudged, fmt.Errorf("%v is too short to show anything; the least is %v", length, shortest)
	}
	if seed == 0 {
		seed = rand.Uint64()
	}
	if dir == "" {
		if dir, err = os.MkdirTemp("", "faults-"); err != nil {
			return unjudged, err
		}
	}
	fmt.Fprintf(out, "seed %d; histories in %s\n", seed, dir)
	var results []*result
	for _, s := range share {
		part := s.part
		if only == s.mode {
			part = 0.8
		} else if only != "" {
			continue
		}
		r := round{mode: s.mode, seed: seed, length: time.Duration(float64(length) * part), workers: workers, dir: filepath.Join(dir, string(s.mode))}
		if err := os.Mkdir(r.dir, 0o755); err != nil {
			return unjudged, err
		}
		res, err := r.run(ctx)
		if err != nil {
			return unjudged, err
		}
		results = append(results, res)
		fmt.Fprintf(out, "\n%s: %d violations\n", titles[s.mode], len(res.violations))
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
	if len(results) == 0 {
		return unjudged, fmt.Errorf("there is no mode %q", only)
	}
	table(out, results)
	fmt.Fprintf(out, "\nseed %d\n", seed)
	return worst, nil
}
