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
	"github.com/fencedlock/fencedlock/integration/faults/internal/worker"
)

// errNotNow is the error of a fault for which there is nothing to hit at the moment. It is not counted.
var errNotNow = errors.New("nothing to hit")

// errNever is the error of a fault that cannot be in this mode. It is not even counted as drawn.
var errNever = errors.New("not in this mode")

// strike is a fault that was brought about.
type strike struct {
	target string        // for the history
	ways   *mate         // whose ways to etcd it hurts: also those of a process that takes the target's place; may be nil
	from   int64         // when it began, at the earliest; 0: when it was drawn
	undo   func()        // ends it; nil: it is over by itself
	effect func() effect // asked after that; nil: it has struck
}

// effect is what a fault has done.
type effect int

const (
	struck  effect = iota
	nothing        // for certain; it leaves no trace in the history, and so excuses nobody
	perhaps        // it is in the history, and not counted
)

// seen is struck if that was seen, else nothing.
func seen(yes bool) effect {
	if yes {
		return struck
	}
	return nothing
}

// fault brings one about.
type fault func(n *nemesis, s step) (strike, error)

// faults are all that lanes draw from.
var faults = map[string]fault{
	"pause":            pauseAnywhere,
	"pause-after-read": pauseAfterRead,
	"pause-inside":     pauseInside,
	"kill":             kill,
	"clock-forward":    stepClock("1h", "0s"),
	"clock-back":       stepClock("-1h", "1h"),
	"revoke":           revoke,
	"delete-key":       deleteKey,

	"cut-both":        cut(bothWays),
	"cut-requests":    cut(requestsOnly),
	"cut-replies":     cut(repliesOnly),
	"half-open":       halfOpen,
	"reset":           resetConnections,
	"replies-delayed": delayReplies,

	"enqueue-reply-lost":    loseReplies("enqueue"),
	"enqueue-late":          late("enqueue"),
	"release-reply-lost":    loseReplies("release"),
	"release-late":          late("release"),
	"read-reply-lost":       loseReplies("read"),
	"read-late":             late("read"),
	"renewal-reply-lost":    loseReplies("renewal"),
	"renewal-late":          late("renewal"),
	"grant-reply-lost":      loseReplies("grant"),
	"grant-late":            late("grant"),
	"revocation-reply-lost": loseReplies("revocation"),
	"revocation-late":       late("revocation"),

	"storage-silent":        hurtStorage(silent),
	"storage-reset":         resetStorage,
	"storage-replies-lost":  hurtStorage(repliesLost),
	"storage-requests-late": hurtStorage(requestsLate),
	"storage-restarted":     restartStorage,
	"write-reply-lost":      strikeWrite(replyLost),
	"write-late":            strikeWrite(comesLate),
	"write-repeated":        strikeWrite(comesTwice),

	"member-killed":   killMember,
	"leader-killed":   killLeader,
	"member-isolated": isolateMember,
	"compaction":      compact,
	"defragmentation": defragment,
	"no-space":        noSpace,
}

// nemesis brings about the faults of all lanes.
type nemesis struct {
	s      *stage
	mode   worker.Mode
	site   *site
	crew   []*mate
	rec    *history.Recorder
	names  []string                 // of the locks
	queue  func(name string) string // the prefix of a lock's keys
	faults map[string]fault

	mu    sync.Mutex
	tally map[string]tally // by kind; guarded by mu
	id    int              // guarded by mu
	aimed map[string]bool  // names at which somebody is paused after reading; guarded by mu
	late  map[string]int   // how often somebody then wrote after a successor, by name; guarded by mu
}

func newNemesis(s *stage, r round, x *site, rec *history.Recorder, names []string) *nemesis {
	return &nemesis{s: s, mode: r.mode, site: x, rec: rec, names: names, queue: r.queue, faults: faults,
		tally: make(map[string]tally), aimed: make(map[string]bool), late: make(map[string]int)}
}

// tally counts the faults of a kind.
type tally struct{ drawn, struck int }

// run works through the lanes, act by act, and returns when the last fault is over.
func (n *nemesis) run(ctx context.Context, seed uint64, length time.Duration) {
	schedules := make([][]step, len(lanes))
	for i, l := range lanes {
		schedules[i] = l.schedule(seed, length)
	}
	began := time.Now()
	for i := time.Duration(0); i*cycle < length && time.Since(began) < length && ctx.Err() == nil; i++ {
		if i > 0 {
			n.keepTruce(ctx)
		}
		n.act(ctx, i*cycle, schedules)
	}
	for _, m := range n.crew {
		m.loose.Wait()
	}
}

// act works through the faults of one act, which begins at that time in the schedule.
func (n *nemesis) act(ctx context.Context, from time.Duration, schedules [][]step) {
	var wg sync.WaitGroup
	began := time.Now()
	for _, steps := range schedules {
		wg.Go(func() {
			for _, s := range steps {
				if s.at < from || s.at > from+act {
					continue
				}
				if time.Since(began) > act {
					return // on a slow machine faults take longer than they should
				}
				select {
				case <-ctx.Done():
					return
				case <-time.After(time.Until(began.Add(s.at - from))):
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
	hit, err := n.faults[s.kind](n, s)
	switch {
	case errors.Is(err, errNever):
		return
	case errors.Is(err, errNotNow):
		n.count(s.kind, false)
		return
	case err != nil:
		n.s.Fatalf("%s: %v", s.kind, err)
	}
	if hit.from > 0 {
		began = hit.from
	}
	time.Sleep(s.last)
	if hit.undo != nil {
		hit.undo()
	}
	done := struck
	if hit.effect != nil {
		done = hit.effect()
	}
	id := n.count(s.kind, done == struck)
	if done == nothing {
		return
	}
	e := history.Event{Op: id, Fault: s.kind, Target: hit.target}
	if done == perhaps {
		e.Err = "it may have struck nothing"
	}
	n.record(began, e)
	if hit.ways != nil {
		if who := hit.ways.now().who; who != hit.target {
			e.Op, e.Target = id+"+", who
			n.record(began, e)
		}
	}
}

// record writes down a fault that is over.
func (n *nemesis) record(began int64, e history.Event) {
	e.T, e.Kind = began, history.Begin
	n.rec.Add(e)
	e.T, e.Kind = 0, history.End
	n.rec.Add(e)
}

// count counts a fault, and gives it an identity.
func (n *nemesis) count(kind string, struck bool) (id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.tally[kind]
	t.drawn++
	if struck {
		t.struck++
	}
	n.tally[kind] = t
	n.id++
	return strconv.Itoa(n.id)
}

// mates are the workers that a step may hit, in the order in which they are tried.
func (n *nemesis) mates(s step) (may []*mate) {
	for i, m := range n.crew {
		if s.crew == all || i%2 == int(s.crew-even) {
			may = append(may, m)
		}
	}
	first := int(s.pick % uint64(len(may)))
	return append(may[first:], may[:first]...)
}

const (
	tries = 3
	soon  = 1500 * time.Millisecond // for a worker to come to a lock
)

// bring makes one of the workers come to a place under a lock, the first that does.
func (n *nemesis) bring(s step, place, name string) (m *mate, l *life, from int64, err error) {
	tag := strconv.FormatUint(s.pick, 36)
	may := n.mates(s)
	for _, m := range may[:min(tries, len(may))] {
		from := history.Now()
		if l, ok := m.come(place, tag, name, soon); ok {
			return m, l, from, nil
		}
	}
	return nil, nil, 0, errNotNow
}

// name is the resource whose turn it is.
func (n *nemesis) name(s step) string { return n.names[s.turn%len(n.names)] }

// rnd decides further of what a step hits.
func (s step) rnd() *rand.Rand { return rand.New(rand.NewPCG(s.pick, 1)) }

func itoa(n int) string { return fmt.Sprint(n) }
