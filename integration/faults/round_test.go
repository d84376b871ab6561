//go:build unix

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
	"github.com/fencedlock/fencedlock/integration/faults/internal/store"
	"github.com/fencedlock/fencedlock/integration/faults/internal/worker"
)

func TestAShortRunBreaksNoPromise(t *testing.T) {
	r := round{mode: worker.Guarded, seed: 7, length: 12 * time.Second, workers: 4, dir: t.TempDir()}
	res, err := r.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range res.violations {
		t.Errorf("seed %d: %v", r.seed, v)
	}
	// It is no proof unless something was done and something happened.
	if res.outcomes[history.Applied] < 100 || res.struck() < 5 {
		t.Errorf("%d writes, %d faults", res.outcomes[history.Applied], res.struck())
	}
	finals := 0
	for _, e := range res.events {
		if e.Kind == history.Final && e.Doc.Gen*50+len(e.Doc.List) > 0 && e.Token > 0 {
			finals++
		}
	}
	if kinds := len(store.Kinds()); finals != kinds || kinds != 12 {
		t.Errorf("%d of %d storages were written under a guard; there are 12", finals, kinds)
	}
	var out strings.Builder
	table(&out, []*result{res})
	t.Logf("%s", &out)
}
