//go:build unix

package main

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fencedlock/fencedlock/integration/faults/internal/check"
	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
	"github.com/fencedlock/fencedlock/integration/faults/internal/store"
	"github.com/fencedlock/fencedlock/integration/faults/internal/worker"
)

const (
	// often is how often a kind of fault must have been drawn for it to be no accident that it has never struck.
	often = 5
	// refuses is how long a guarded run may take for one guard more to have had a late write to refuse.
	refuses = 20 * time.Second
	// loses is how long a control may take to lose writes in one storage more.
	loses = 15 * time.Second
)

// verdict is what a round has shown.
type verdict int

const (
	asItShould verdict = iota
	broken             // a promise, or a control that did no harm
	unjudged           // nothing: the round had too little in it
)

// verdict tells what the round has shown, and why if that is not as it should be.
func (r *result) verdict() (v verdict, why []string) {
	if r.mode == worker.Guarded && len(r.violations) > 0 {
		return broken, nil // they are printed
	}
	if r.mode != worker.Guarded {
		if why := r.harmless(); why != "" {
			return broken, []string{why}
		}
		return asItShould, nil
	}
	if why = append(r.toothless(), r.idle()...); len(why) > 0 {
		return unjudged, why
	}
	return asItShould, nil
}

// harmless tells why a control shows nothing: it must have lost acknowledged writes, in most storages if it was long enough.
// Other violations are no proof that the guards are needed.
func (r *result) harmless() string {
	lost := make(map[string]bool)
	for _, v := range r.violations {
		if v.Check == check.LostWrite {
			lost[v.Name] = true
		}
	}
	most := len(store.Kinds())/2 + 1
	want := min(most, max(1, int(r.length/loses)))
	if len(lost) < want {
		return fmt.Sprintf("acknowledged writes were lost in %d of %d storages, which should be %d at least without guards", len(lost), len(store.Kinds()), want)
	}
	return ""
}

// toothless tells which faults never struck.
func (r *result) toothless() (why []string) {
	var all tally
	for _, kind := range slices.Sorted(maps.Keys(r.faults)) {
		t := r.faults[kind]
		all.drawn += t.drawn
		all.struck += t.struck
		if t.drawn >= often && t.struck == 0 {
			why = append(why, fmt.Sprintf("%s was drawn %d times and never struck", kind, t.drawn))
		}
	}
	if 2*all.struck < all.drawn || all.drawn == 0 {
		why = append(why, fmt.Sprintf("of %d faults that were drawn %d struck", all.drawn, all.struck))
	}
	return why
}

// idle tells which storages were not written while there were faults, and whether too few guards had something to refuse.
func (r *result) idle() (why []string) {
	applied, stale := make(map[string]int), make(map[string]int)
	for _, e := range r.events {
		if e.Kind == history.Calm {
			break
		}
		switch {
		case e.Kind == history.Wrote && e.Outcome == history.Applied:
			applied[e.Name]++
		case e.Outcome == history.Stale:
			stale[e.Name]++
		}
	}
	for _, k := range store.Kinds() {
		if applied[k.Resource()] == 0 {
			why = append(why, k.Name+" has applied no write while there were faults")
		}
	}
	if want := min(len(store.Kinds()), int(r.length/refuses)); len(stale) < want {
		why = append(why, fmt.Sprintf("%d guards have refused a write, which should be %d at least in %v", len(stale), want, r.length))
	}
	return why
}
