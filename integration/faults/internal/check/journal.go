package check

import (
	"slices"

	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
)

// journal: what a storage has carried out, where it keeps a journal of that, is what it holds: each write once, in the order
// of the tokens, and none that was overwritten since. A write that was acknowledged and overwritten is for kept.
func (r *run) journal() (found []Violation) {
	for _, name := range r.names {
		journal := r.finals[name].Journal
		if journal == nil {
			continue
		}
		add := func(check, format string, args ...any) {
			found = append(found, violation(check, name, format, args...))
		}
		ops, _ := r.applied(name)
		listed := make(map[string]bool)
		for _, op := range ops {
			listed[op] = true
		}
		times := make(map[string]int)
		var last *write
		for _, op := range journal {
			times[op]++
			w := r.writes[name][op]
			if times[op] > 1 {
				continue
			}
			if w == nil {
				add(WrongWrite, "%s was carried out, which nobody wrote", op)
				continue
			}
			switch {
			case listed[op] || w.outcome == history.Applied:
			case w.outcome == history.Unknown:
				add(Overwritten, "%s with token %d was carried out, and is not there", op, w.Token)
			default:
				add(WrongWrite, "%s with token %d was reported as %s, and was carried out", op, w.Token, w.outcome)
			}
			if last != nil && w.Token > 0 && w.Token < last.Token && !(listed[op] && listed[last.Op]) { // order sees the others
				add(TokenOrder, "%s with token %d was carried out after %s with %d", op, w.Token, last.Op, last.Token)
			}
			last = w
		}
		for _, op := range slices.Compact(slices.Sorted(slices.Values(journal))) {
			if times[op] > 1 {
				add(DoubledWrite, "%s was carried out %d times", op, times[op])
			}
		}
		for _, op := range ops {
			if times[op] == 0 {
				add(TornWrite, "%s is in the list, and not in the journal", op)
			}
		}
	}
	return found
}
