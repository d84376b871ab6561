package check

import (
	"cmp"
	"slices"

	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
)

// seen is a mark that somebody knows at a time: it was raised to that, or told.
type seen struct{ t, mark int64 }

// step is a request to a guard.
type step struct {
	history.Event // its end
	start         int64
}

// steps returns what was asked of the guard of a resource, and was answered.
func (r *run) steps(name string) (all []step) {
	for _, e := range r.events {
		switch {
		case e.Name != name:
		case e.Kind == history.Seal:
			all = append(all, step{e, e.Start})
		case e.Kind == history.Wrote && r.writes[name][e.Op] != nil:
			all = append(all, step{e, r.writes[name][e.Op].T})
		}
	}
	return all
}

// guarded tells whether holders raise the mark of the resource.
func guarded(steps []step) bool {
	return slices.ContainsFunc(steps, func(s step) bool { return s.Kind == history.Seal })
}

// marks: a mark never goes back, is no token that nobody has raised it to, and who was refused for it has a lower one.
func (r *run) marks() (found []Violation) {
	for _, name := range r.names {
		steps := r.steps(name)
		if !guarded(steps) {
			continue
		}
		known := r.known(name, steps)
		for _, s := range steps {
			before := highest(known, s.start)
			switch {
			case s.Outcome == history.Applied && s.Token < before:
				found = append(found, violation(Marks, name, "%s: %s with token %d was accepted after a mark of %d", s.Hold, s.Kind, s.Token, before))
			case s.Outcome == history.Stale && s.Highest < before:
				found = append(found, violation(Marks, name, "%s was refused for a mark of %d after one of %d", s.Hold, s.Highest, before))
			case s.Outcome == history.Stale && (s.Highest <= s.Token || !r.canHaveRaised(name, s.Highest, s.T)):
				found = append(found, violation(Refusals, name, "%s with token %d was refused for a mark of %d, which no later holder can have raised", s.Hold, s.Token, s.Highest))
			}
		}
		final, ok := r.finals[name]
		if before := highest(known, never); ok && final.Token < before {
			found = append(found, violation(Marks, name, "it is %d at the end, after %d", final.Token, before))
		} else if ok && final.Token > 0 && !r.canHaveRaised(name, final.Token, never) {
			found = append(found, violation(Marks, name, "it is %d at the end, which no holder can have raised", final.Token))
		}
	}
	return found
}

// known returns what was known of the mark, in the order of time, each with the highest so far. What a refusal says is only
// believed if it can be.
func (r *run) known(name string, steps []step) (known []seen) {
	for _, s := range steps {
		switch {
		case s.Outcome == history.Applied:
			known = append(known, seen{s.T, s.Token})
		case s.Outcome == history.Stale && r.canHaveRaised(name, s.Highest, s.T):
			known = append(known, seen{s.T, s.Highest})
		}
	}
	slices.SortStableFunc(known, func(a, b seen) int { return cmp.Compare(a.t, b.t) })
	for i := 1; i < len(known); i++ {
		known[i].mark = max(known[i].mark, known[i-1].mark)
	}
	return known
}

// highest returns the highest mark that was known before t.
func highest(known []seen, t int64) int64 {
	i, _ := slices.BinarySearchFunc(known, t, func(s seen, t int64) int { return cmp.Compare(s.t, t) })
	if i == 0 {
		return 0
	}
	return known[i-1].mark
}

// canHaveRaised tells whether the mark can be that of the token before t: its holder has it by then, and was not told that
// its seal certainly failed. Without a seal nobody writes; one that is not in the history can be that of a killed process.
func (r *run) canHaveRaised(name string, token, t int64) bool {
	return slices.ContainsFunc(r.holds[name], func(h *hold) bool {
		if h.token != token || h.got == 0 || h.got > t {
			return false
		}
		switch h.sealed {
		case history.Applied, history.Unknown:
			return true
		case "":
			return !h.over
		}
		return false
	})
}
