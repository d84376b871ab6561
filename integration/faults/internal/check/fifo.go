package check

import (
	"cmp"
	"time"
)

// roundTrip is how long after a call of Lock its place in the queue is taken for certain, if nothing is in the way.
const roundTrip = 2 * time.Second

// fifo: nobody gets the lock who has asked for it later than somebody who still waits, unless the waiter's place can have
// been late or lost: by a fault of its process, of all etcd, of its lease or its key.
func (r *run) fifo() (found []Violation) {
	for _, name := range r.names {
		held := r.held(name)
		for _, h := range r.holds[name] {
			until, _ := r.waited(h)
			if h.refused > 0 && !h.gaveUp {
				continue // its session was over: losses asks why
			}
			var first *hold
			passed := 0
			for _, p := range held {
				later := p.ask > h.ask+int64(roundTrip) && p.got < until && (h.token == 0 || p.token < h.token)
				if later && !r.blamed(h, h.ask-int64(r.TTL+time.Second), p.got) {
					first, passed = cmp.Or(first, p), passed+1
				}
			}
			if first != nil {
				found = append(found, violation(FIFO, name, "%s waited while %d who had asked later got the lock; the first was %s, which had asked %s later",
					h.id, passed, first.id, seconds(first.ask-h.ask)))
			}
		}
	}
	return found
}
