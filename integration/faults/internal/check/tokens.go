package check

// tokens: they rise strictly in the order of the grants.
func (r *run) tokens() (found []Violation) {
	for _, name := range r.names {
		var highest *hold
		seen := make(map[int64]*hold)
		for _, h := range r.held(name) {
			if h.token == 0 {
				continue // etcd's Mutex has none, and a look at its key may fail
			}
			if other := seen[h.token]; other != nil {
				found = append(found, violation(TokensRise, name, "%s and %s both got %d", other.id, h.id, h.token))
			}
			seen[h.token] = h
			away, _ := r.takenAway(h)
			switch {
			case highest == nil || h.token > highest.token:
				highest = h
			case r.paused(h) || away < h.got:
				// It was granted before, and came to itself after its successor.
			case h.token < highest.token:
				found = append(found, violation(TokensRise, name, "%s got %d after %s had got %d", h.id, h.token, highest.id, highest.token))
			}
		}
	}
	return found
}

// trust: when a successor has the lock, its predecessor does not believe to have it. A pause is no excuse here, since a look
// counts from the moment before it was made.
func (r *run) trust() (found []Violation) {
	for _, name := range r.names {
		held := r.held(name)
		for _, h := range held {
			if len(h.looks) == 0 || h.token == 0 {
				continue
			}
			look := h.looks[len(h.looks)-1]
			for _, next := range held {
				if next.token > h.token && next.got < look && !r.excused(h, look) {
					found = append(found, violation(Trust, name, "%s believed to hold token %d, %.3f s after %s had got %d",
						h.id, h.token, float64(look-next.got)/1e9, next.id, next.token))
					break
				}
			}
		}
	}
	return found
}

// excused: a key that was deleted from outside is noticed within a TTL, and whose clock goes back knows nothing.
func (r *run) excused(h *hold, t int64) bool {
	if from, to := r.takenAway(h); from <= t && t <= to+int64(r.TTL) {
		return true
	}
	return r.misled(h, t) <= t
}
