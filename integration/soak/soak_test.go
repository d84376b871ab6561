package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestMain(m *testing.M) {
	if serving() { // started as etcd's process
		return
	}
	goleak.VerifyTestMain(m)
}

// short is the same on a small scale. Memory of a few megabytes goes up and down by more, and so do three hundred goroutines, since a
// connection that is lost takes those of its streams along for a while. Two watches may be left of lost connections.
func short(samples int) config {
	return config{
		sessions: 20, names: 200, held: 5, clients: 3,
		pause: 60 * time.Millisecond, life: 10,
		samples: samples, every: 600 * time.Millisecond, cutEach: 3,
		slack: slack{memory: 0.1, goroutines: 0.03, watches: 0.02},
	}
}

func TestNothingGrowsWhileSessionsComeAndGo(t *testing.T) {
	var out strings.Builder
	r, err := short(14).run(t.Context(), &out)
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	grown := r.print(&out)
	t.Logf("\n%s", &out)
	if len(grown) > 0 {
		t.Errorf("grown: %v", grown)
	}
	for what, n := range r.tally.all() {
		if n == 0 && what != "lost" {
			t.Errorf("never happened: %s", what)
		}
	}
}

// One key or lease that is left behind must be found; of watches, goroutines and memory, what is left after each thing that is done.
func TestPlantedLeaksAreFound(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var kept [][]byte
	once := map[string]func(*crew) error{
		"keys in etcd": func(c *crew) error {
			_, err := c.site.admin.Put(ctx, "left", "")
			return err
		},
		"leases in etcd": func(c *crew) error {
			_, err := c.site.admin.Grant(ctx, 600)
			return err
		},
	}
	each := map[string]func(*crew){
		"watches in etcd":      func(c *crew) { c.site.admin.Watch(ctx, "watched", clientv3.WithCreatedNotify()) },
		"goroutines":           func(*crew) { go func() { <-ctx.Done() }() },
		"heap and stacks, KiB": func(*crew) { kept = append(kept, make([]byte, 16<<10)) },
	}
	var out strings.Builder
	cfg := short(10)
	turn := make(chan struct{}, 1)
	cfg.leak = func(_ context.Context, c *crew) {
		turn <- struct{}{} // one at a time
		defer func() { <-turn }()
		if len(kept) == 0 {
			for what, leak := range once {
				if err := leak(c); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
		}
		for _, leak := range each {
			leak(c)
		}
	}
	r, err := cfg.run(ctx, &out)
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	grown := r.print(&out)
	t.Logf("\n%s", &out)
	for _, what := range slices.Concat(slices.Collect(maps.Keys(once)), slices.Collect(maps.Keys(each))) {
		if !slices.Contains(grown, what) {
			t.Errorf("not found: %s; found: %v", what, grown)
		}
	}
	if len(kept) == 0 {
		t.Error("nothing was kept")
	}
}
