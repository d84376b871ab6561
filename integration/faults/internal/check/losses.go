package check

import (
	"time"

	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
)

// losses: nobody is refused a lock, or loses one or a session, without a fault that can be to blame. Who would not wait any
// longer was not refused: that is for waits.
func (r *run) losses() (found []Violation) {
	blame := int64(r.TTL + time.Second) // for so long a fault can show after its end
	unexcused := make(map[int64]bool)
	for _, name := range r.names {
		for _, h := range r.holds[name] {
			what, from, at := "was refused", h.ask, h.refused
			if h.got > 0 {
				what, from, at = "was lost", h.had(), h.lost
			}
			if at == 0 || h.gaveUp || r.blamed(h, from-blame, at) {
				continue
			}
			unexcused[h.lease] = true
			found = append(found, violation(Losses, name, "%s %s after %s, with no fault about: %s", h.id, what, seconds(at-max(h.ask, h.got)), h.err))
		}
	}
	alive := make(map[int64]int64)
	for _, e := range r.events {
		lease := e.Lease
		if h := r.byID[e.Hold]; h != nil {
			lease = h.lease
		}
		switch {
		case e.Kind == history.Lost:
			if h := (&hold{who: e.Who, lease: lease}); !unexcused[lease] && !r.blamed(h, alive[lease]-blame, e.T) {
				found = append(found, violation(Losses, e.Who, "a session was lost with no fault about: %s", e.Err))
			}
		case e.Kind == history.Opened, e.Kind == history.Ask, e.Kind == history.Got, e.Kind == history.Look && e.OK:
			alive[lease] = e.T
		}
	}
	return found
}

// had is the last moment at which the holder had the lock, as it was told.
func (h *hold) had() int64 {
	if len(h.looks) == 0 {
		return h.got
	}
	return max(h.got, h.looks[len(h.looks)-1])
}

// blamed tells whether a fault that was about in that time can have taken the lock from its holder or a waiter.
func (r *run) blamed(h *hold, from, to int64) bool {
	for _, f := range r.faults {
		if f.overlaps(from, to) && (f.hits(h.who) || r.takes(f, h)) {
			return true
		}
	}
	return false
}
