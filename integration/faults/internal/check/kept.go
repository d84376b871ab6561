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
			if w == nil || w.Token == 0 {
				continue // kept complains about it; and etcd's Mutex has no token to show at times
			}
			if last != nil && w.Token < last.Token {
				found = append(found, violation(TokenOrder, name, "%s with token %d was applied after %s with %d", op, w.Token, last.Op, last.Token))
			}
			last = w
		}
	}
	return found
}

// kept: what was acknowledged is there once, what was refused is not, and the money is what the list says.
func (r *run) kept() (found []Violation) {
	for _, name := range r.names {
		add := func(check, format string, args ...any) {
			found = append(found, violation(check, name, format, args...))
		}
		ops, broken := r.applied(name)
		if broken != "" {
			add(WrongWrite, "%s", broken)
		}
		times := make(map[string]int)
		accounts := history.NewDoc().Accounts
		for _, op := range ops {
			times[op]++
			w := r.writes[name][op]
			if w == nil {
				add(WrongWrite, "it holds %s, which nobody wrote", op)
				continue
			}
			accounts = w.Change.Move(accounts)
		}
		if final := r.finals[name].Doc; final != nil && final.Accounts != accounts {
			add(TornWrite, "the accounts are %v; by the list they should be %v", final.Accounts, accounts)
		}
		for _, w := range r.ops[name] {
			n := times[w.Op]
			switch {
			case n > 1:
				add(WrongWrite, "%s was applied %d times", w.Op, n)
			case n == 0 && w.outcome == history.Applied:
				add(LostWrite, "%s with token %d was acknowledged, and is lost", w.Op, w.Token)
			case n == 1 && (w.outcome == history.Failed || w.outcome == history.Stale):
				add(WrongWrite, "%s with token %d was reported as %s, and is there", w.Op, w.Token, w.outcome)
			}
		}
	}
	return found
}
