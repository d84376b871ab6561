// Package check judges the history of a fault run. Each check is a function of the history alone.
package check

import (
	"cmp"
	"context"
	"fmt"
	"slices"
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

	// Happened: there is nothing that the other checks could have looked at.
	Happened = "happened"

	TokensRise = "tokens rise"
	Trust      = "trust"
	// Losses: a lock was refused, or a lock or session lost, and nothing was to blame.
	Losses       = "losses"
	Waits        = "waits"
	FIFO         = "first come, first served"
	LockIsLinear = "lock is linearizable"

	CalmWorks = "calm"
	LeftOver  = "left over"
)

// Checks are all of them.
var Checks = []string{
	LostWrite, TornWrite, WrongWrite, DoubledWrite, Overwritten, TokenOrder, Marks, Refusals, RegisterIsLinear, Happened, TokensRise, Trust, Losses, Waits, FIFO, LockIsLinear, CalmWorks, LeftOver,
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
		r.happened, r.order, r.kept, r.journal, r.torn, r.marks, r.tokens, r.trust, r.losses, r.waits, r.fifo, r.lockIsLinear, r.registerIsLinear, r.leftOver,
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
	ask, got, refused int64           // 0: did not happen
	gaveUp            bool            // refused since its worker would not wait any longer
	leave             int64           // about to be given back
	left              int64           // given back for certain
	lost              int64           // found to be over
	last              int64           // the last event about it
	looks             []int64         // when it was had, as its worker was told
	sealed            history.Outcome // "": not, as far as is known
	over              bool            // its worker was through with it
	err               string          // of the refusal or loss
}

// write is one write of a resource.
type write struct {
	history.Event // of Kind Write
	outcome       history.Outcome
	done          int64 // never: its process was killed
}

// run is a history in the form that the checks need.
type run struct {
	Options
	events  []history.Event
	names   []string
	holds   map[string][]*hold // by name, in the order in which they were got
	byID    map[string]*hold
	writes  map[string]map[string]*write // by name and op
	ops     map[string][]*write          // by name, in the order of asking
	finals  map[string]history.Event
	faults  []fault
	granted map[string]bool // the tokens that were got, as targets of faults
}

func newRun(events []history.Event, o Options) *run {
	r := &run{Options: o, events: events,
		holds: make(map[string][]*hold), byID: make(map[string]*hold), writes: make(map[string]map[string]*write),
		ops: make(map[string][]*write), finals: make(map[string]history.Event), granted: make(map[string]bool)}
	open := make(map[string]int)
	for _, e := range events {
		if e.Hold != "" {
			r.holdOf(e)
			r.named(e.Name)
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
			r.named(e.Name)
		case history.Begin:
			open[e.Op] = len(r.faults)
			r.faults = append(r.faults, fault{e.Fault, e.Target, e.T, never, e.Err == ""})
		case history.End:
			if i, ok := open[e.Op]; ok {
				r.faults[i].end = e.T
			}
		}
	}
	for _, holds := range r.holds {
		slices.SortStableFunc(holds, func(a, b *hold) int { return cmp.Compare(a.got, b.got) })
	}
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
		r.granted["token "+itoa(e.Token)] = true
	case history.Refused:
		h.refused, h.over = e.T, true
		h.gaveUp, h.err = gaveUp(e.Err), e.Err
	case history.Seal:
		h.sealed = e.Outcome
	case history.Look:
		if e.OK {
			h.looks = append(h.looks, e.T)
		} else if h.lost == 0 {
			h.lost, h.err = e.T, e.Err
		}
	case history.Leave:
		h.leave = e.T
	case history.Left:
		h.over = true
		switch {
		case e.OK:
			h.left = e.T
			if h.leave > 0 {
				h.looks = append(h.looks, h.leave) // a success says that it was had until then
			}
		case h.lost == 0:
			h.lost, h.err = e.T, e.Err
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

func violation(check, name, format string, args ...any) Violation {
	return Violation{Check: check, Name: name, Text: fmt.Sprintf(format, args...)}
}

// gaveUp tells whether the error of Lock says that its caller would not wait any longer.
func gaveUp(err string) bool {
	return strings.HasSuffix(err, context.DeadlineExceeded.Error()) || strings.HasSuffix(err, context.Canceled.Error())
}

func seconds(ns int64) string { return fmt.Sprintf("%.3f s", float64(ns)/1e9) }
