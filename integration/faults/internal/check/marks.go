package check

import (
	"slices"

	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
)

// refusals: who was told to be stale had a successor.
func (r *run) refusals() (found []Violation) {
	for _, e := range r.events {
		if e.Outcome != history.Stale {
			continue
		}
		known := slices.ContainsFunc(r.holds[e.Name], func(h *hold) bool { return h.token == e.Highest && h.got > 0 && h.got <= e.T })
		if e.Highest <= e.Token || !known {
			found = append(found, violation(Refusals, e.Name, "%s with token %d was refused for a mark of %d, which no later holder had", e.Hold, e.Token, e.Highest))
		}
	}
	return found
}
