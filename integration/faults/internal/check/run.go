// Package check judges the history of a fault run. Each check is a function of the history alone.
package check

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
)

// The checks, by the promise that is broken.
const (
	// LostWrite: a write was acknowledged, and the resource does not hold it. Each such write is reported once.
	LostWrite = "lost write"
	// TornWrite: the money is not what a whole write has left. Each change of it is reported once.
	TornWrite = "torn write"
	// WrongWrite: there is a write that nobody made, or that was said not to be, or twice.
	WrongWrite = "wrong write"
	// DoubledWrite: a storage that adds has carried a write out more than once. Each such write is reported once.
	DoubledWrite = "doubled write"
	// Overwritten: a write of whose outcome its writer never heard was carried out, and the resource does not hold it.
	Overwritten = "overwritten"
	// TokenOrder: a write was applied after one with a higher token.
	TokenOrder = "token order"
	// Marks: a guard's mark went back, or is one that nobody has raised.
	Marks            = "marks"
	Refusals         = "refusals"
	RegisterIsLinear = "register is linearizable"

	TokensRise   = "tokens rise"
	Trust        = "trust"
	Waits        = "waits"
	LockIsLinear = "lock is linearizable"

	CalmWorks = "calm"
	LeftOver  = "left over"
)

// Checks are all of them.
var Checks = []string{
	LostWrite, TornWrite, WrongWrite, DoubledWrite, Overwritten, TokenOrder, Marks, Refusals, RegisterIsLinear, TokensRise, Trust, Waits, LockIsLinear, CalmWorks, LeftOver,
}

// Violation is a promise that the history shows broken.
type Violation struct {
	Check string // which one
	Name  string // the resource, and the lock
	Text  string
	// Picture writes porcupine's page about it; nil: there is none.
	Picture func(path string) error
}

func (v Violation) String() string { return v.Check + ": " + v.Name + ": " + v.Text }

// Options are what the checks must know beside the history.
type Options struct {
	TTL time.Duration // of the sessions
}

// All runs every check.
func All(events []history.Event, o Options) []Violation {
	r := newRun(events, o)
	var all []Violation
	for _, check := range []func() []Violation{
		r.order, r.kept, r.journal, r.torn, r.marks, r.tokens, r.trust, r.waits, r.lockIsLinear, r.registerIsLinear, r.leftOver,
	} {
		all = append(all, check()...)
	}
	return all
}

// never is later than everything.
const never = int64(1) << 62

// hold is one call of Lock and what followed.
type hold struct {
	id, name, who     string
	token, lease      int64
	ask, got, refused int64 // 0: did not happen
	left              int64 // given back for certain
	last              int64 // the last event about it
	looks             []int64
	sealed            history.Outcome // "": not, as far as is known
	over              bool            // its worker was through with it
}

// write is one write of a resource.
type write struct {
	history.Event // of Kind Write
	outcome       history.Outcome
	done          int64 // never: its process was killed
}

// fault is one that the nemesis has brought about.
type fault struct {
	kind, target string
	begin, end   int64
}

// run is a history in the form that the checks need.
type run struct {
	Options
	events []history.Event
	names  []string
	holds  map[string][]*hold // by name, in the order in which they were got
	byID   map[string]*hold
	writes map[string]map[string]*write // by name and op
	ops    map[string][]*write          // by name, in the order of asking
	finals map[string]history.Event
	faults []fault
}

func newRun(events []history.Event, o Options) *run {
	r := &run{Options: o, events: events,
		holds: make(map[string][]*hold), byID: make(map[string]*hold), writes: make(map[string]map[string]*write),
		ops: make(map[string][]*write), finals: make(map[string]history.Event)}
	open := make(map[string]int)
	for _, e := range events {
		if e.Hold != "" {
			r.holdOf(e)
		}
		switch e.Kind {
		case history.Write:
			w := &write{Event: e, outcome: history.Unknown, done: never}
			if r.writes[e.Name] == nil {
				r.writes[e.Name] = make(map[string]*write)
			}
			r.writes[e.Name][e.Op] = w
			r.ops[e.Name] = append(r.ops[e.Name], w)
		case history.Wrote:
			if w := r.writes[e.Name][e.Op]; w != nil {
				w.outcome, w.done = e.Outcome, e.T
			}
		case history.Final:
			r.finals[e.Name] = e
		case history.Begin:
			open[e.Op] = len(r.faults)
			r.faults = append(r.faults, fault{e.Fault, e.Target, e.T, never})
		case history.End:
			if i, ok := open[e.Op]; ok {
				r.faults[i].end = e.T
			}
		}
	}
	for name, holds := range r.holds {
		slices.SortStableFunc(holds, func(a, b *hold) int { return int(min(1, max(-1, a.got-b.got))) })
		r.names = append(r.names, name)
	}
	slices.Sort(r.names)
	return r
}

// holdOf adds the event to its hold.
func (r *run) holdOf(e history.Event) {
	h := r.byID[e.Hold]
	if h == nil {
		h = &hold{id: e.Hold, name: e.Name, who: e.Who}
		r.byID[e.Hold] = h
		r.holds[e.Name] = append(r.holds[e.Name], h)
	}
	h.last = max(h.last, e.T)
	switch e.Kind {
	case history.Ask:
		h.ask, h.lease = e.T, e.Lease
	case history.Got:
		h.got, h.token = e.T, e.Token
	case history.Refused:
		h.refused, h.over = e.T, true
	case history.Seal:
		h.sealed = e.Outcome
	case history.Look:
		if e.OK {
			h.looks = append(h.looks, e.T)
		}
	case history.Left:
		h.over = true
		if e.OK {
			h.left = e.T
		}
	}
}

// held returns the holds of a name that were got.
func (r *run) held(name string) (got []*hold) {
	for _, h := range r.holds[name] {
		if h.got > 0 {
			got = append(got, h)
		}
	}
	return got
}

// The faults that checks make allowances for. A pause and a clock that was set back are the only excuses of a holder; a lock
// that somebody took away from outside is none of the lock's doing.
const (
	Pause     = "pause"      // also "pause-after-read" and so on; the target is the process
	ClockBack = "clock-back" // the target is the process
	Revoke    = "revoke"     // the target is "lease N"
	DeleteKey = "delete-key" // the target is "token N"
)

func (f fault) overlaps(from, to int64) bool { return f.begin <= to && from <= f.end }

func (r *run) paused(h *hold) bool {
	return slices.ContainsFunc(r.faults, func(f fault) bool {
		return strings.HasPrefix(f.kind, Pause) && f.target == h.who && f.overlaps(h.ask, h.got)
	})
}

// takenAway is when the hold's key was deleted from outside, at the earliest and at the latest; never if it was not.
func (r *run) takenAway(h *hold) (from, to int64) {
	for _, f := range r.faults {
		if f.kind == Revoke && f.target == "lease "+strconv.FormatInt(h.lease, 10) ||
			f.kind == DeleteKey && f.target == "token "+strconv.FormatInt(h.token, 10) {
			return f.begin, f.end
		}
	}
	return never, never
}

// misled is since when the hold's process had a clock that was set back, at T; never if it had not.
func (r *run) misled(h *hold, t int64) int64 {
	for _, f := range r.faults {
		if f.kind == ClockBack && f.target == h.who && f.overlaps(h.ask, t) {
			return f.begin
		}
	}
	return never
}

func violation(check, name, format string, args ...any) Violation {
	return Violation{Check: check, Name: name, Text: fmt.Sprintf(format, args...)}
}
