package check

import "github.com/fencedlock/fencedlock/integration/faults/internal/history"

// leftOver: at the end nothing is left behind, and after the last fault everything works.
func (r *run) leftOver() (found []Violation) {
	for _, e := range r.events {
		switch {
		case e.Kind == history.Over:
			found = append(found, violation(LeftOver, e.Who, "%s: %s", e.Name, e.Err))
		case e.Calm && e.Kind == history.Refused, e.Calm && e.Kind == history.Read && e.Err != "",
			e.Calm && e.Outcome != "" && e.Outcome != history.Applied, e.Calm && e.Kind == history.Left && !e.OK:
			found = append(found, violation(CalmWorks, e.Name, "%s: %s %s after the end of all faults: %s", e.Hold, e.Kind, e.Outcome, e.Err))
		}
	}
	return found
}
