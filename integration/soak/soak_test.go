package main

import (
	"context"
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

// short is the same on a small scale. Keys and leases are held to the same one per cent. A heap of two megabytes cannot be, nor
// can three hundred goroutines: each stream that the etcd client opens for watches needs some, and each wait that is cancelled
// while its watch is being made may leave that watch in etcd until its key changes.
func short(samples int) config {
	return config{
		sessions: 20, names: 200, held: 5, clients: 2,
		pause: 60 * time.Millisecond, life: 10,
		samples: samples, every: 600 * time.Millisecond, cutEach: 4, slack: 0.25,
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

// What stays behind after each thing that is done must be found, whatever it is.
func TestPlantedLeaksAreFound(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var kept [][]byte
	kinds := map[string]func(*crew){
		"goroutines": func(*crew) { go func() { <-ctx.Done() }() },
		"keys in etcd": func(c *crew) {
			if _, err := c.site.admin.Put(ctx, "left/"+time.Now().Format(time.RFC3339Nano), ""); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		},
		"leases in etcd": func(c *crew) {
			if _, err := c.site.admin.Grant(ctx, 600); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		},
		"watches in etcd":      func(c *crew) { c.site.admin.Watch(ctx, "watched", clientv3.WithCreatedNotify()) },
		"heap and stacks, KiB": func(*crew) { kept = append(kept, make([]byte, 32<<10)) },
	}
	var out strings.Builder
	cfg := short(10)
	turn := make(chan struct{}, 1)
	cfg.leak = func(_ context.Context, c *crew) {
		turn <- struct{}{} // one at a time
		defer func() { <-turn }()
		for _, leak := range kinds {
			leak(c)
		}
	}
	r, err := cfg.run(ctx, &out)
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	grown := r.print(&out)
	t.Logf("\n%s", &out)
	for what := range kinds {
		if !slices.Contains(grown, what) {
			t.Errorf("not found: %s; found: %v", what, grown)
		}
	}
	if len(kept) == 0 {
		t.Error("nothing was kept")
	}
}
