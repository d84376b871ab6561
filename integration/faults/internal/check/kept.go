package check

import (
	"slices"

	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
)

// applied returns the writes that the resource holds in the end, in the order in which it holds them: the last list, and
// before it those that later writes have dropped.
func (r *run) applied(name string) (ops []string, broken string) {
	final, ok := r.finals[name]
	if !ok || final.Doc == nil {
		return nil, "what it holds at the end is not known"
	}
	list := final.Doc.List
	ops = slices.Clone(list)
	for gen := final.Doc.Gen; gen > 0; gen-- {
		if len(list) == 0 {
			return ops, "a list after the first one is empty"
		}
		first := r.writes[name][list[0]]
		if first == nil || first.Dropped == nil {
			return ops, "the list of " + list[0] + " begins with a write that has begun none"
		}
		list = first.Dropped
		ops = append(slices.Clone(list), ops...)
	}
	return ops, ""
}

// order: tokens of what was applied never go back.
func (r *run) order() (found []Violation) {
	for _, name := range r.names {
		ops, _ := r.applied(name)
		var last *write
		for _, op := range ops {
			w := r.writes[name][op]
			if w == nil {
				continue // kept complains about it
			}
			if last != nil && w.Token < last.Token {
				found = append(found, violation("token order", name, "%s with token %d was applied after %s with %d", op, w.Token, last.Op, last.Token))
			}
			last = w
		}
	}
	return found
}

// kept: what was acknowledged is there once, what was refused is not, and the money is what the list says.
func (r *run) kept() (found []Violation) {
	add := func(name, format string, args ...any) {
		found = append(found, violation("kept", name, format, args...))
	}
	for _, name := range r.names {
		ops, broken := r.applied(name)
		if broken != "" {
			add(name, "%s", broken)
		}
		times := make(map[string]int)
		accounts := history.NewDoc().Accounts
		for _, op := range ops {
			times[op]++
			w := r.writes[name][op]
			if w == nil {
				add(name, "it holds %s, which nobody wrote", op)
				continue
			}
			accounts[w.Change.From] -= w.Change.Amount
			accounts[w.Change.To] += w.Change.Amount
		}
		if final := r.finals[name].Doc; final != nil && final.Accounts != accounts {
			add(name, "the accounts are %v; by the list they should be %v", final.Accounts, accounts)
		}
		for _, w := range r.ops[name] {
			n := times[w.Op]
			switch {
			case n > 1:
				add(name, "%s was applied %d times", w.Op, n)
			case n == 0 && w.outcome == history.Applied:
				add(name, "%s with token %d was acknowledged, and is lost", w.Op, w.Token)
			case n == 1 && (w.outcome == history.Failed || w.outcome == history.Stale):
				add(name, "%s with token %d was reported as %s, and is there", w.Op, w.Token, w.outcome)
			}
		}
	}
	for _, e := range r.events {
		if e.Kind == history.Read && e.Base != nil && e.Base.Sum() != history.Accounts*history.Opening {
			add(e.Name, "%s read accounts %v: half of a write", e.Hold, e.Base.Accounts)
		}
	}
	return append(found, r.refusals()...)
}

// refusals: who was told to be stale had a successor.
func (r *run) refusals() (found []Violation) {
	for _, e := range r.events {
		if e.Outcome != history.Stale {
			continue
		}
		known := slices.ContainsFunc(r.holds[e.Name], func(h *hold) bool { return h.token == e.Highest && h.got > 0 && h.got <= e.T })
		if e.Highest <= e.Token || !known {
			found = append(found, violation("refusals", e.Name, "%s with token %d was refused for a mark of %d, which no later holder had", e.Hold, e.Token, e.Highest))
		}
	}
	return found
}
