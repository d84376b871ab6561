//go:build unix

package main

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fencedlock/fencedlock/integration/faults/internal/check"
	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
	"github.com/fencedlock/fencedlock/integration/faults/internal/store"
	"github.com/fencedlock/fencedlock/integration/faults/internal/worker"
)

// shown is how many violations of a kind are printed.
const shown = 3

var titles = map[worker.Mode]string{
	worker.Guarded:   "fencedlock, with guards",
	worker.Unguarded: "fencedlock, without guards",
	worker.Etcd:      "etcd's concurrency.Mutex",
}

// table prints the comparison.
func table(out io.Writer, results []*result) {
	fmt.Fprint(out, "\n| lock | holds | faults | applied | refused as stale | unknown | failed | lost writes | violations |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range results {
		fmt.Fprintf(out, "| %s | %d | %d | %d | %d | %d | %d | %d | %d |\n", titles[r.mode], r.holds, r.struck(),
			r.outcomes[history.Applied], r.outcomes[history.Stale], r.outcomes[history.Unknown], r.outcomes[history.Failed],
			r.broken(check.LostWrite), len(r.violations))
	}
	line := func(head string, cell func(*result) string) {
		text := fmt.Sprintf("%-40s", head)
		for _, r := range results {
			text += fmt.Sprintf("  %-12s", cell(r))
		}
		fmt.Fprintln(out, strings.TrimRight(text, " "))
	}
	mode := func(r *result) string { return string(r.mode) }
	fmt.Fprintln(out)
	line("faults that struck/were drawn", mode)
	kinds := make(map[string]bool)
	for _, r := range results {
		for k := range r.faults {
			kinds[k] = true
		}
	}
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		line("  "+k, func(r *result) string { return fmt.Sprintf("%d/%d", r.faults[k].struck, r.faults[k].drawn) })
	}
	fmt.Fprintln(out)
	line("writes applied/refused as stale/lost", mode)
	for _, k := range store.Kinds() {
		line("  "+k.Name, func(r *result) string {
			return fmt.Sprintf("%d/%d/%d", r.wrote(k.Resource(), history.Applied), r.wrote(k.Resource(), history.Stale), r.lost(k.Resource()))
		})
	}
}

// conclude prints the verdict, last of all.
func conclude(out io.Writer, v verdict, results []*result) {
	var found []string
	for _, r := range results {
		found = append(found, fmt.Sprintf("%s: %d violations, %d acknowledged writes lost", titles[r.mode], len(r.violations), r.broken(check.LostWrite)))
	}
	result := map[verdict]string{asItShould: "as it should be", broken: "FAILED", unjudged: "NOT JUDGED, see above"}[v]
	fmt.Fprintf(out, "\nRESULT: %s (%s)\n", result, strings.Join(found, "; "))
	var none []string
	for _, r := range results {
		for _, k := range store.Kinds() {
			if r.mode == worker.Guarded && r.wrote(k.Resource(), history.Stale) == 0 {
				none = append(none, k.Name)
			}
		}
	}
	if len(none) > 0 {
		fmt.Fprintf(out, "No late write came to %s: a longer run shows more.\n", strings.Join(none, ", "))
	}
}

// struck counts the faults that had an effect.
func (r *result) struck() (n int) {
	for _, t := range r.faults {
		n += t.struck
	}
	return n
}

// broken counts the violations that a check found.
func (r *result) broken(by string) (n int) {
	for _, v := range r.violations {
		if v.Check == by {
			n++
		}
	}
	return n
}

// wrote counts a storage's writes with that outcome.
func (r *result) wrote(name string, o history.Outcome) (n int) {
	for _, e := range r.events {
		if e.Kind == history.Wrote && e.Name == name && e.Outcome == o {
			n++
		}
	}
	return n
}

// lost counts those that were acknowledged and are not there.
func (r *result) lost(name string) (n int) {
	for _, v := range r.violations {
		if v.Check == check.LostWrite && v.Name == name {
			n++
		}
	}
	return n
}

// explain prints the violations, some of each kind, and writes what shows them into the folder.
func (r *result) explain(out io.Writer, dir string) error {
	expected := ""
	if r.mode != worker.Guarded {
		expected = ", as it should be without guards"
	}
	fmt.Fprintf(out, "  %d violations%s\n", len(r.violations), expected)
	if len(r.violations) == 0 {
		return nil
	}
	count := make(map[string]int)
	for _, v := range r.violations {
		count[v.Check]++
		if count[v.Check] <= shown {
			fmt.Fprintf(out, "  %s\n", v)
		}
	}
	for _, c := range slices.Sorted(maps.Keys(count)) {
		fmt.Fprintf(out, "  %-26s %d\n", c+":", count[c])
	}
	for _, v := range r.violations {
		name := filepath.Join(dir, string(r.mode)+"-"+v.Name)
		var own []history.Event
		for _, e := range r.events {
			if e.Name == v.Name || e.Kind == history.Begin || e.Kind == history.End || e.Who == v.Name {
				own = append(own, e)
			}
		}
		if err := history.WriteFile(name+".jsonl", own); err != nil {
			return err
		}
		if v.Picture == nil {
			continue
		}
		kind := "register"
		if v.Check == check.LockIsLinear {
			kind = "lock"
		}
		if err := v.Picture(name + "-" + kind + ".html"); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "  the histories and pictures are in %s\n", dir)
	return nil
}
