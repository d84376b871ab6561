//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/integration/faults/internal/check"
	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
	"github.com/fencedlock/fencedlock/integration/faults/internal/worker"
)

// brokenHistory has two holders at once of one lock, and a good hold of another.
func brokenHistory() (events []history.Event) {
	at := int64(0)
	add := func(who, name string, tok int64, k history.Kind) {
		at += int64(time.Millisecond)
		events = append(events, history.Event{T: at, Who: who, Kind: k, Name: name, Hold: who + name, Token: tok, OK: true})
	}
	for _, name := range []string{"good", "bad"} {
		for i, who := range []string{"w0.0", "w1.0"} {
			add(who, name, 0, history.Ask)
			add(who, name, int64(5+i), history.Got)
			if name == "good" {
				add(who, name, int64(5+i), history.Left)
			}
		}
		d := history.NewDoc()
		events = append(events, history.Event{T: at, Kind: history.Final, Name: name, Doc: &d})
	}
	add("w0.0", "bad", 5, history.Look)
	return events
}

func TestAViolationIsExplained(t *testing.T) {
	events := brokenHistory()
	r := &result{mode: worker.Guarded, events: events, violations: check.All(events, check.Options{TTL: ttl})}
	dir := t.TempDir()
	var out strings.Builder
	if err := r.explain(&out, dir); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"trust: bad: w0.0bad believed to hold token 5", "lock is linearizable: bad", dir} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, &out)
		}
	}
	own, err := history.ReadFile(filepath.Join(dir, "guarded-bad.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range own {
		if e.Name != "bad" {
			t.Errorf("the history of the bad lock has %+v", e)
		}
	}
	if page, err := os.ReadFile(filepath.Join(dir, "guarded-bad-lock.html")); err != nil || len(page) < 1000 || len(own) != 6 {
		t.Errorf("%d events, a picture of %d bytes, %v", len(own), len(page), err)
	}
}
