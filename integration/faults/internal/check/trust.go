package check

import "time"

// trust: when a successor has the lock, its predecessor does not believe to have it, nor to have had it until it gave it
// back. Whose key was deleted from outside or lease revoked knows that soon, whether somebody else wants the lock or not. A
// pause is no excuse here, since a look counts from the moment before it was made.
func (r *run) trust() (found []Violation) {
	for _, name := range r.names {
		held := r.held(name)
		for _, h := range held {
			if text := r.wrongLook(h, held); text != "" {
				found = append(found, violation(Trust, name, "%s believed to hold token %d, %s", h.id, h.token, text))
			}
		}
	}
	return found
}

// wrongLook says what is wrong with the last look of a holder, or with that on which its release rests.
func (r *run) wrongLook(h *hold, held []*hold) string {
	if len(h.looks) == 0 || h.token == 0 {
		return ""
	}
	look := h.looks[len(h.looks)-1]
	for _, next := range held {
		if next.token > h.token && next.got < look && !r.excused(h, look) {
			return seconds(look-next.got) + " after " + next.id + " had got " + itoa(next.token)
		}
	}
	if f := r.taking(h); f.certain && f.begin < look && !r.excused(h, look) {
		return seconds(look-f.begin) + " after its key or lease was taken away"
	}
	return ""
}

// excused: whose clock goes back knows nothing. A key that was deleted from outside, or its lease, is noticed within a TTL,
// and here a second more, unless the process is stopped: a holder reads its key thrice in a TTL, and who cannot is over.
func (r *run) excused(h *hold, look int64) bool {
	if r.misled(h, look) <= look {
		return true
	}
	from, since := r.takenAway(h)
	for _, f := range r.faults {
		if f.pauses(h.who) && f.overlaps(from, look) {
			since = max(since, f.end)
		}
	}
	return from <= look && look <= since+int64(r.TTL+time.Second)
}
