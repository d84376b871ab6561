//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
)

// errNotNow is the error of a fault for which there is nothing to hit at the moment. It is not counted.
var errNotNow = errors.New("nothing to hit")

// strike is a fault that was brought about.
type strike struct {
	target string // for the history
	undo   func() // ends it; nil: it is over by itself
}

// fault brings one about.
type fault func(n *nemesis, s step) (strike, error)

// faults are all that lanes draw from.
var faults = map[string]fault{
	"pause":            pauseAnywhere,
	"pause-after-read": pauseAt("after-read"),
	"pause-inside":     pauseAt("inside"),
	"kill":             kill,
	"clock-forward":    stepClock("1h", "0s"),
	"clock-back":       stepClock("-1h", "1h"),
	"revoke":           revoke,
	"delete-key":       deleteKey,

	"cut-both":       cut(bothWays),
	"cut-requests":   cut(requestsOnly),
	"cut-replies":    cut(repliesOnly),
	"half-open":      halfOpen,
	"reset":          resetConnections,
	"replies-lost":   loseReplies,
	"requests-late":  lateRequests,
	"storage-silent": hurtStorage(silent),
	"storage-reset":  resetStorage,

	"replies-delayed":       delayReplies,
	"storage-replies-lost":  hurtStorage(repliesLost),
	"storage-requests-late": hurtStorage(requestsLate),

	"member-killed":     killMember,
	"leader-killed":     killLeader,
	"member-isolated":   isolateMember,
	"compaction":        compact,
	"defragmentation":   defragment,
	"no-space":          noSpace,
	"storage-restarted": restartStorage,
	"write-reply-lost":  strikeWrite(false),
	"write-late":        strikeWrite(true),
}

// nemesis brings about the faults of all lanes.
type nemesis struct {
	s     *stage
	site  *site
	crew  []*mate
	rec   *history.Recorder
	names []string                 // of the locks
	queue func(name string) string // the prefix of a lock's keys

	mu    sync.Mutex
	count map[string]int // by kind; guarded by mu
	id    int            // guarded by mu
}

// run works through the lanes and returns when the last fault is over.
func (n *nemesis) run(ctx context.Context, seed uint64, length time.Duration) {
	var wg sync.WaitGroup
	began := time.Now()
	for _, l := range lanes {
		wg.Go(func() {
			for _, s := range l.schedule(seed, length) {
				if time.Since(began) > length {
					return // on a slow machine faults take longer than they should
				}
				select {
				case <-ctx.Done():
					return
				case <-time.After(time.Until(began.Add(s.at))):
				}
				n.strike(s)
			}
		})
	}
	wg.Wait()
}

// strike brings about one fault, waits and undoes it.
func (n *nemesis) strike(s step) {
	began := history.Now() // before it can have had any effect
	hit, err := faults[s.kind](n, s)
	if errors.Is(err, errNotNow) {
		return
	}
	if err != nil {
		n.s.Fatalf("%s: %v", s.kind, err)
	}
	n.mu.Lock()
	n.id++
	id := strconv.Itoa(n.id)
	n.count[s.kind]++
	n.mu.Unlock()
	n.rec.Add(history.Event{T: began, Kind: history.Begin, Op: id, Fault: s.kind, Target: hit.target})
	time.Sleep(s.last)
	if hit.undo != nil {
		hit.undo()
	}
	n.rec.Add(history.Event{Kind: history.End, Op: id, Fault: s.kind, Target: hit.target})
}

// missed takes back that a fault was counted: it has hit nothing.
func (n *nemesis) missed(kind string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.count[kind]--
}

// mate is the worker that a step hits.
func (n *nemesis) mate(s step) *mate {
	i := s.pick % uint64(len(n.crew))
	if s.crew != all {
		i = i/2*2 + uint64(s.crew-even)
	}
	return n.crew[i%uint64(len(n.crew))]
}

// name is the resource whose turn it is.
func (n *nemesis) name(s step) string { return n.names[s.turn%len(n.names)] }

// rnd decides further of what a step hits.
func (s step) rnd() *rand.Rand { return rand.New(rand.NewPCG(s.pick, 1)) }

func itoa(n int) string { return fmt.Sprint(n) }
