//go:build unix

package main

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"

	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
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
	fmt.Fprint(out, "\n| lock | holds | faults | applied | refused as stale | unknown | failed | violations |\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range results {
		fmt.Fprintf(out, "| %s | %d | %d | %d | %d | %d | %d | %d |\n", titles[r.mode], r.holds, r.struck(),
			r.outcomes[history.Applied], r.outcomes[history.Stale], r.outcomes[history.Unknown], r.outcomes[history.Failed], len(r.violations))
	}
	fmt.Fprint(out, "\nfaults by kind:\n")
	kinds := make(map[string]bool)
	for _, r := range results {
		for k := range r.faults {
			kinds[k] = true
		}
	}
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Fprintf(out, "  %-22s", k)
		for _, r := range results {
			fmt.Fprintf(out, " %4d", r.faults[k])
		}
		fmt.Fprintln(out)
	}
}

// asItShould tells whether the guarded run broke no promise, or a control broke some.
func (r *result) asItShould() bool { return (len(r.violations) == 0) == (r.mode == worker.Guarded) }

func (r *result) struck() (n int) {
	for _, c := range r.faults {
		n += c
	}
	return n
}

// explain prints the violations, some of each kind, and writes what shows them into the folder.
func (r *result) explain(out io.Writer, dir string) error {
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
		if v.Check == "lock is linearizable" {
			kind = "lock"
		}
		if err := v.Picture(name + "-" + kind + ".html"); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "  the histories and pictures are in %s\n", dir)
	return nil
}
