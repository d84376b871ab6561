package check

import "github.com/fencedlock/fencedlock/integration/faults/internal/history"

// torn: who reads sees what one write has left, whole. A write says what it was made of, so what is wrong is reported at the
// first read of it, and not once more for all that was built on it.
func (r *run) torn() (found []Violation) {
	type state struct{ name, last string }
	seen := make(map[state]history.Base)
	for _, e := range r.events {
		if e.Kind != history.Read || e.Base == nil {
			continue
		}
		at := state{e.Name, e.Base.Last}
		if before, ok := seen[at]; ok && before == *e.Base {
			continue
		}
		seen[at] = *e.Base
		want := history.NewDoc().Base()
		if e.Base.Last != "" {
			w := r.writes[e.Name][e.Base.Last]
			if w == nil {
				found = append(found, violation(WrongWrite, e.Name, "%s read %s, which nobody wrote", e.Hold, e.Base.Last))
				continue
			}
			want = w.left()
		}
		if *e.Base != *want {
			found = append(found, violation(TornWrite, e.Name, "%s read %+v, and the write has left %+v", e.Hold, *e.Base, *want))
		}
	}
	return found
}

// left is what the resource holds after the write.
func (w *write) left() *history.Base {
	b := *w.Base
	b.Last, b.Len = w.Op, b.Len+1
	if w.Dropped != nil {
		b.Gen, b.Len = b.Gen+1, 1
	}
	b.Accounts = w.Change.Move(b.Accounts)
	return &b
}
