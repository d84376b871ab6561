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
