// Package history is what a fault run leaves behind: one event for everything that a worker or the nemesis did and saw, one
// JSON line each, on a clock that all processes of the machine share.
package history

import (
	"github.com/fencedlock/fencedlock/internal/clock"
)

// Kind says what an event is about.
type Kind string

// The kinds. Those in pairs are two, since the process may be killed in between.
const (
	Opened Kind = "opened" // a session began: Lease
	Lost   Kind = "lost"   // a session was found to be over: Err

	Ask     Kind = "ask"     // a lock is asked for: Hold, Name
	Got     Kind = "got"     // and held: Token
	Refused Kind = "refused" // or not: Err

	Look Kind = "look" // the holder looked whether it still holds; T is the moment before it did: OK

	Seal Kind = "seal" // the mark was raised, or not: Start, Outcome
	Read Kind = "read" // the resource was read: Start, Base; a read that failed has Err

	Write Kind = "write" // a write is about to be sent: Op, Base, Change, and Dropped where it begins a new list
	Wrote Kind = "wrote" // what came of it: Outcome

	Leave Kind = "leave" // the lock is about to be given back
	Left  Kind = "left"  // what came of it: OK if it is free, else Err

	Begin Kind = "begin" // a fault begins: Fault, Target; with Err it may have struck nothing
	End   Kind = "end"   // and ends
	Calm  Kind = "calm"  // all faults are over, and everything must work from now on

	Final Kind = "final" // what the resource holds at the end: Doc, Journal where it keeps one, and its mark as Token
	Over  Kind = "over"  // something is left behind at the end: Name says what, Err which
)

// Outcome is what a guarded write may end in.
type Outcome string

// The outcomes. A write without one is as Unknown: its process was killed.
const (
	Applied Outcome = "applied"
	Stale   Outcome = "stale"   // refused by a higher mark: Highest
	Unknown Outcome = "unknown" // applied or not
	Failed  Outcome = "failed"  // certainly not applied
)

// Event is one line of a history.
type Event struct {
	T     int64  `json:"t"`               // nanoseconds since boot, of the moment that the kind says
	Start int64  `json:"start,omitempty"` // of what took time and has one event only
	Who   string `json:"who"`             // a worker's process as "w2.1": the third worker, started again once; or "nemesis"
	Kind  Kind   `json:"kind"`

	Hold  string `json:"hold,omitempty"` // identifies one call of Lock and what follows from it
	Name  string `json:"name,omitempty"` // of the lock, which is the resource's
	Token int64  `json:"token,omitempty"`
	OK    bool   `json:"ok,omitempty"`
	Err   string `json:"err,omitempty"`
	Lease int64  `json:"lease,omitempty"`
	Calm  bool   `json:"calm,omitempty"` // done after Calm

	Op      string   `json:"op,omitempty"` // the write, and the entry that it appends to the list
	Outcome Outcome  `json:"outcome,omitempty"`
	Highest int64    `json:"highest,omitempty"`
	Base    *Base    `json:"base,omitempty"`
	Change  *Change  `json:"change,omitempty"`
	Dropped []string `json:"dropped,omitempty"`
	Doc     *Doc     `json:"doc,omitempty"`
	Journal []string `json:"journal,omitzero"` // nil: none is kept

	Fault  string `json:"fault,omitempty"`
	Target string `json:"target,omitempty"` // of the fault: a worker's process, a member, a storage, or all
}

// Now is the time of an event that happens now.
func Now() int64 { return int64(clock.SinceBoot()) }
