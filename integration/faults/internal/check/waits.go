package check

import (
	"cmp"
	"slices"
	"time"
)

// slack is what a waiter may need beside the TTL.
const slack = 2 * time.Second

// waits: who waits has the lock within a TTL and two seconds of its being free and nothing in the way, or gives up before.
// What is in the way is a holder, and the faults of those alone who wait, have the lock, or may have left a key behind.
func (r *run) waits() (found []Violation) {
	for _, name := range r.names {
		for _, h := range r.holds[name] {
			until, what := r.waited(h)
			if free := longestGap(r.inTheWay(h, until), h.ask, until); free > int64(r.TTL+slack) {
				found = append(found, violation(Waits, name, "%s %s, after %s in which the lock was free and nothing in the way", h.id, what, seconds(free)))
			}
		}
	}
	return found
}

// waited is until when somebody has waited for the lock, and how that ended. A killed process does not wait.
func (r *run) waited(h *hold) (until int64, what string) {
	switch {
	case h.got > 0:
		return h.got, "had it"
	case h.refused > 0:
		return h.refused, "gave up"
	case r.killed(h.who) < never:
		return h.ask, "was killed"
	}
	return r.events[len(r.events)-1].T, "waits for ever"
}

// span is a time in which a waiter need not get the lock.
type span struct{ from, to int64 }

func (r *run) inTheWay(h *hold, until int64) (spans []span) {
	whose := map[string]bool{h.who: true}
	for _, p := range r.holds[h.name] {
		if p == h || p.ask > until || h.token != 0 && p.token > h.token {
			continue
		}
		end := r.ended(p)
		if p.got > 0 && end >= h.ask {
			spans = append(spans, span{p.got, end})
		}
		// Without a release that is certain its key may be there for a while.
		if end >= h.ask || p.left == 0 && p.ask+3*int64(r.TTL+slack) > h.ask {
			whose[p.who] = true
		}
	}
	for _, f := range r.faults {
		if f.end >= h.ask && (holdsUpAll(f.kind) || whose[f.target]) {
			spans = append(spans, span{f.begin, f.end})
		}
	}
	return spans
}

// ended is when the hold was over, or its worker dead; never if neither is known.
func (r *run) ended(h *hold) int64 {
	switch {
	case h.left > 0:
		return h.left
	case h.over:
		return h.last
	}
	return r.killed(h.who)
}

// killed is when the process was, never if it was not.
func (r *run) killed(who string) int64 {
	for _, f := range r.faults {
		if f.kind == Kill && f.target == who {
			return f.end
		}
	}
	return never
}

// longestGap returns the longest time between from and to that is in none of the spans.
func longestGap(spans []span, from, to int64) (longest int64) {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for _, s := range spans {
		longest = max(longest, min(s.from, to)-from)
		from = max(from, s.to)
	}
	return max(longest, to-from)
}
