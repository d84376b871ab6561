//go:build unix

package main

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// step is one fault of a schedule.
type step struct {
	at   time.Duration // since the beginning
	kind string
	pick uint64 // decides what is hit, of what can be hit then
	turn int    // one more than that of the lane's last of this kind: decides where all are to have their turn
	crew crew   // whom it may hit
	last time.Duration
}

func (s step) String() string {
	return fmt.Sprintf("%8.3fs %-22s for %5.3fs pick %d", s.at.Seconds(), s.kind, s.last.Seconds(), s.pick%1000)
}

// crew is a part of the workers.
type crew int

// Two lanes that stop workers must not meet at one.
const (
	all crew = iota
	even
	odd
)

// The faults come in acts. After each is a truce, in which there is none in any lane: whoever waits for a lock then, or
// has left something behind, has no excuse.
const (
	act   = 24 * time.Second
	truce = ttl + 4*time.Second // more than a TTL and the two seconds that a waiter may need
	cycle = act + truce
)

// lane is faults that come one after the other. Several lanes run side by side, so that their faults meet.
type lane struct {
	name  string
	rest  time.Duration // between two faults, at most
	crew  crew
	kinds []draw
	part  part
}

// part is the part of each act in which a lane has its faults.
type part struct{ from, to time.Duration }

var (
	wholeAct = part{0, act}
	most     = part{0, act - 6*time.Second}
	// The end is what a truce comes after, so that what somebody leaves behind then is seen while its session lives.
	end = part{most.to, act}
)

// draw is a kind of fault, how often it is drawn, and how long it lasts.
type draw struct {
	kind        string
	weight      int
	least, most time.Duration
}

const ms = time.Millisecond

// pauses last longer than a lease, which is 2 s, and renewed by each new leader.
var pauses = []draw{
	{"pause", 1, 2800 * ms, 4500 * ms},
	{"pause-after-read", 6, 2800 * ms, 4000 * ms},
	{"pause-inside", 2, 2800 * ms, 4500 * ms},
}

// lanes are all faults that there are.
var lanes = []lane{
	{"pauses", 500 * ms, even, pauses, wholeAct},
	{"more pauses", 500 * ms, odd, pauses, wholeAct},
	{"workers", 4000 * ms, all, []draw{
		{"kill", 2, 100 * ms, 1000 * ms},
		{"clock-forward", 1, 500 * ms, 1500 * ms},
		{"clock-back", 1, 500 * ms, 2500 * ms},
		{"revoke", 2, 50 * ms, 50 * ms},
		{"delete-key", 2, 50 * ms, 50 * ms},
	}, wholeAct},
	{"network", 1000 * ms, all, []draw{
		{"cut-both", 3, 2000 * ms, 4500 * ms},
		{"cut-requests", 2, 2000 * ms, 4500 * ms},
		{"cut-replies", 2, 2000 * ms, 4500 * ms},
		{"half-open", 2, 1000 * ms, 4000 * ms},
		{"replies-delayed", 2, 1000 * ms, 3000 * ms},
		{"reset", 2, 50 * ms, 50 * ms},
	}, wholeAct},
	{"calls", 500 * ms, all, []draw{
		{"enqueue-reply-lost", 2, 100 * ms, 500 * ms},
		{"enqueue-late", 3, 100 * ms, 2000 * ms},
		{"release-reply-lost", 2, 100 * ms, 500 * ms},
		{"release-late", 2, 100 * ms, 2000 * ms},
		{"read-reply-lost", 1, 100 * ms, 500 * ms},
		{"read-late", 1, 100 * ms, 1000 * ms},
		{"renewal-reply-lost", 1, 100 * ms, 1500 * ms},
		{"renewal-late", 1, 500 * ms, 2000 * ms},
		{"grant-reply-lost", 1, 100 * ms, 500 * ms},
		{"grant-late", 1, 100 * ms, 2000 * ms},
		{"revocation-reply-lost", 1, 100 * ms, 500 * ms},
		{"revocation-late", 1, 100 * ms, 2000 * ms},
	}, most},
	{"last calls", 300 * ms, all, []draw{
		{"enqueue-late", 4, 100 * ms, 1500 * ms},
		{"enqueue-reply-lost", 1, 100 * ms, 300 * ms},
		{"release-late", 1, 100 * ms, 1500 * ms},
	}, end},
	{"storages", 500 * ms, all, []draw{
		{"storage-silent", 2, 300 * ms, 1500 * ms},
		{"storage-replies-lost", 4, 200 * ms, 1500 * ms},
		{"storage-requests-late", 4, 800 * ms, 2000 * ms},
		{"storage-reset", 2, 10 * ms, 10 * ms},
		{"storage-restarted", 4, 10 * ms, 300 * ms},
		{"write-reply-lost", 6, 200 * ms, 800 * ms},
		{"write-late", 6, 300 * ms, 2500 * ms},
		{"write-repeated", 2, 200 * ms, 800 * ms},
	}, wholeAct},
	{"servers", 4000 * ms, all, []draw{
		{"member-killed", 2, 300 * ms, 2500 * ms},
		{"leader-killed", 2, 300 * ms, 2500 * ms},
		{"member-isolated", 2, 500 * ms, 3000 * ms},
		{"compaction", 1, 10 * ms, 10 * ms},
		{"defragmentation", 1, 10 * ms, 10 * ms},
		{"no-space", 1, 300 * ms, 1500 * ms},
	}, wholeAct},
}

// schedule draws a lane's faults for a run of that length. The seed alone decides.
func (l lane) schedule(seed uint64, length time.Duration) (steps []step) {
	var name uint64
	for _, c := range l.name {
		name = name*31 + uint64(c)
	}
	rnd := rand.New(rand.NewPCG(seed, name))
	turns := make(map[string]int)
	// A deck is dealt before it is shuffled again, so that no kind is missing for long.
	var deck []draw
	for at := l.part.from + l.pause(rnd); ; {
		if len(deck) == 0 {
			for _, d := range l.kinds {
				for range d.weight {
					deck = append(deck, d)
				}
			}
			rnd.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		d := deck[0]
		deck = deck[1:]
		if _, drawn := turns[d.kind]; !drawn {
			turns[d.kind] = rnd.IntN(1000) // else all kinds would begin at the same place
		}
		s := step{at: at, kind: d.kind, pick: rnd.Uint64(), turn: turns[d.kind], crew: l.crew, last: d.least + time.Duration(rnd.Int64N(int64(d.most-d.least)+1))}
		turns[d.kind]++
		rest := l.pause(rnd)
		if s.at%cycle+s.last > l.part.to {
			s.at = s.at/cycle*cycle + cycle + l.part.from + l.pause(rnd) // in the next act
		}
		at = s.at + s.last + rest
		if s.at+s.last > length {
			return steps
		}
		steps = append(steps, s)
	}
}

// pause is how long there is no fault between two.
func (l lane) pause(rnd *rand.Rand) time.Duration {
	return 200*ms + time.Duration(rnd.Int64N(int64(l.rest)))
}
