//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/integration/faults/internal/check"
	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
	"github.com/fencedlock/fencedlock/integration/faults/internal/store"
	"github.com/fencedlock/fencedlock/integration/faults/internal/worker"
)

// goodRound is a guarded one of five minutes that shows what it should.
func goodRound() *result {
	r := &result{mode: worker.Guarded, length: 5 * time.Minute, faults: map[string]tally{"pause": {40, 38}, "kill": {often, 1}}}
	for _, k := range store.Kinds() {
		for _, o := range []history.Outcome{history.Applied, history.Stale} {
			r.events = append(r.events, history.Event{Kind: history.Wrote, Name: k.Resource(), Outcome: o})
		}
	}
	r.events = append(r.events, history.Event{Kind: history.Calm})
	for _, k := range store.Kinds() {
		r.events = append(r.events, history.Event{Kind: history.Wrote, Name: k.Resource(), Outcome: history.Applied})
	}
	return r
}

// without drops the writes of a storage with that outcome while there are faults.
func (r *result) without(k store.Kind, o history.Outcome) {
	for i, e := range r.events {
		if e.Kind == history.Calm {
			return
		}
		if e.Name == k.Resource() && e.Outcome == o {
			r.events[i].Outcome = history.Failed
		}
	}
}

// lose makes the round lose writes in so many storages.
func (r *result) lose(storages int) {
	for _, k := range store.Kinds()[:storages] {
		for i := range 3 {
			r.violations = append(r.violations, check.Violation{Check: check.LostWrite, Name: k.Resource(), Text: fmt.Sprint(i)})
		}
	}
}

// A run in which nothing has happened proves nothing, and must not end as if it did.
func TestTheVerdict(t *testing.T) {
	redis := store.Kinds()[4]
	for _, c := range []struct {
		story string
		edit  func(r *result)
		want  verdict
		why   string
	}{
		{"nothing is wrong", func(*result) {}, asItShould, ""},
		{"a promise was broken", func(r *result) { r.lose(1) }, broken, ""},
		{"a promise was broken, and a fault never struck", func(r *result) { r.lose(1); r.faults["kill"] = tally{9, 0} }, broken, ""},
		{"a kind of fault never struck", func(r *result) { r.faults["kill"] = tally{often, 0} }, unjudged, "kill was drawn 5 times and never struck"},
		{"one that was drawn seldom has not struck", func(r *result) { r.faults["kill"] = tally{often - 1, 0} }, asItShould, ""},
		{"few of the faults struck", func(r *result) { r.faults["pause"] = tally{40, 10} }, unjudged, "of 45 faults that were drawn 11 struck"},
		{"there was no fault", func(r *result) { r.faults = nil }, unjudged, "of 0 faults"},
		{"a storage was away until all was calm", func(r *result) { r.without(redis, history.Applied) }, unjudged, "redis has applied no write"},
		{"a guard had nothing to refuse", func(r *result) { r.without(redis, history.Stale) }, unjudged, "11 guards have refused a write, which should be 12"},
		{"a guard had nothing to refuse in a short run", func(r *result) { r.without(redis, history.Stale); r.length = 12*refuses - 1 }, asItShould, ""},

		{"a control without violations", func(r *result) { r.mode = worker.Etcd }, broken, "lost in 0 of 12"},
		{"a control that has lost no write", func(r *result) {
			r.mode = worker.Etcd
			r.violations = []check.Violation{{Check: check.Trust, Name: redis.Resource()}, {Check: check.LockIsLinear, Name: redis.Resource()}}
		}, broken, "lost in 0 of 12"},
		{"a long control that has lost writes in some storages", func(r *result) { r.mode = worker.Unguarded; r.lose(6) }, broken, "lost in 6 of 12 storages, which should be 7"},
		{"a long control that has lost writes in most", func(r *result) { r.mode = worker.Unguarded; r.lose(7) }, asItShould, ""},
		{"a short control that has lost some", func(r *result) { r.mode = worker.Unguarded; r.lose(3); r.length = 4*loses - 1 }, asItShould, ""},
		{"a short control that has lost fewer", func(r *result) { r.mode = worker.Unguarded; r.lose(2); r.length = 3 * loses }, broken, "lost in 2 of 12 storages, which should be 3"},
	} {
		t.Run(c.story, func(t *testing.T) {
			r := goodRound()
			c.edit(r)
			got, why := r.verdict()
			if text := strings.Join(why, "\n"); got != c.want || !strings.Contains(text, c.why) || (c.why == "") != (text == "") {
				t.Errorf("the verdict is %d, want %d; because:\n%s\nwant %q", got, c.want, text, c.why)
			}
		})
	}
}

func TestTheTableTellsLostWritesAndFaultsThatStruck(t *testing.T) {
	r := goodRound()
	r.lose(2)
	r.violations = append(r.violations, check.Violation{Check: check.Trust})
	var out strings.Builder
	table(&out, []*result{r})
	for _, want := range []string{
		"| lost writes | violations |", "| 6 | 7 |\n", "| fencedlock, with guards | 0 | 39 |", "lost      guarded\n",
		"  pause                                   38/40\n", "1/5", " 2/1/3\n", " 2/1/0\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, &out)
		}
	}
}

func TestWhatCannotBePlayedIsRefusedAtOnce(t *testing.T) {
	good := plan{length: time.Minute, only: worker.Guarded, dir: t.TempDir(), workers: 2}
	if err := good.check(nil); err != nil {
		t.Fatal(err)
	}
	used := t.TempDir()
	if err := os.Mkdir(filepath.Join(used, "etcd"), 0o755); err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]struct {
		change func(*plan)
		args   []string
	}{
		"unexpected argument \"guarded\"":         {func(*plan) {}, []string{"guarded"}},
		"there is no mode \"foo\"; there are":     {func(p *plan) { p.only = "foo" }, nil},
		"-for is 2s, which is too short":          {func(p *plan) { p.length = 2 * time.Second }, nil},
		"-workers is 1; at least 2":               {func(p *plan) { p.workers = 1 }, nil},
		"make it first":                           {func(p *plan) { p.dir += "/absent" }, nil},
		"is no folder":                            {func(p *plan) { p.dir = "main.go" }, nil},
		"has the histories of another run in it;": {func(p *plan) { p.dir = used }, nil},
	} {
		p := good
		c.change(&p)
		if err := p.check(c.args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("not %q: %v", want, err)
		}
	}
}
