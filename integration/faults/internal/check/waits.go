package check

import (
	"slices"
	"time"
)

// slack is what a waiter may need beside the TTL.
const slack = 2 * time.Second

// The faults of etcd as a whole, which hold up everybody. All others hit one process, which is their target; those of the
// storages hold up nobody's lock.
var everybody = []string{"member-killed", "leader-killed", "member-isolated", "no-space", "defragmentation"}

// holdsUpAll tells whether the fault holds up all who wait.
func holdsUpAll(kind string) bool { return slices.Contains(everybody, kind) }

// waits: who waits has the lock within a TTL and two seconds of its being free, and of the end of what was in the way.
func (r *run) waits() (found []Violation) {
	limit := int64(r.TTL + slack)
	for _, name := range r.names {
		for _, h := range r.holds[name] {
			until := h.got
			if until == 0 {
				until = h.refused
			}
			if until == 0 {
				continue // killed, or stopped for good
			}
			since, judged := r.freeFor(h, until)
			if judged && until-since > limit {
				what := "had it"
				if h.got == 0 {
					what = "gave up"
				}
				found = append(found, violation(Waits, name, "%s %s %.1f s after the lock was free and nothing was in the way", h.id, what, float64(until-since)/1e9))
			}
		}
	}
	return found
}

// freeFor returns since when nothing was between the waiter and the lock.
func (r *run) freeFor(h *hold, until int64) (since int64, judged bool) {
	since = h.ask
	whose := map[string]bool{h.who: true}
	for _, p := range r.holds[h.name] {
		// Whoever asked before it was through may have been ahead of it.
		if p == h || p.ask > until || h.token != 0 && p.token > h.token {
			continue
		}
		end := p.left
		if end == 0 {
			end = p.last // it gave up, was killed, or lost its session
		}
		if end < h.ask {
			if p.left == 0 && p.ask+3*int64(r.TTL+slack) > h.ask {
				whose[p.who] = true // its key may still be there
			}
			continue
		}
		whose[p.who] = true
		since = max(since, min(end, until))
	}
	for _, f := range r.faults {
		if f.begin > until || !holdsUpAll(f.kind) && !whose[f.target] && f.kind != Revoke && f.kind != DeleteKey {
			continue
		}
		if f.end > until {
			return 0, false
		}
		since = max(since, f.end)
	}
	return since, true
}
