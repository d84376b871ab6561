package check

import (
	"slices"
	"strconv"
	"strings"
)

// fault is one that the nemesis has brought about.
type fault struct {
	kind, target string
	begin, end   int64
	certain      bool // else it is an excuse, and proves nothing
}

// The faults that checks make allowances for. A pause and a clock that was set back are the only excuses of a holder; a lock
// that somebody took away from outside is none of the lock's doing.
const (
	Kill      = "kill"       // the target is the process
	Pause     = "pause"      // also "pause-after-read" and so on; the target is the process
	ClockBack = "clock-back" // the target is the process
	Revoke    = "revoke"     // the target is "lease N"
	DeleteKey = "delete-key" // the target is "token N"
)

func (f fault) overlaps(from, to int64) bool { return f.begin <= to && from <= f.end }

func (f fault) pauses(who string) bool { return strings.HasPrefix(f.kind, Pause) && f.target == who }

func (r *run) paused(h *hold) bool {
	return slices.ContainsFunc(r.faults, func(f fault) bool { return f.pauses(h.who) && f.overlaps(h.ask, h.got) })
}

// Stall is no fault of the nemesis: the machine stood still.
const Stall = "stall"

// The faults of the machine and of etcd as a whole, which hold up everybody. All others hit one process, which is their
// target; those of the storages hold up nobody's lock.
var everybody = []string{"member-killed", "leader-killed", "member-isolated", "no-space", "defragmentation", Stall}

// holdsUpAll tells whether the fault holds up all who wait.
func holdsUpAll(kind string) bool { return slices.Contains(everybody, kind) }

// hits tells whether the fault is one of the process, or of etcd as a whole.
func (f fault) hits(who string) bool { return f.target == who || holdsUpAll(f.kind) }

// takes tells whether the fault takes the lock's key away. The token of a waiter is not known, so a key that is no holder's
// may be that of any.
func (r *run) takes(f fault, h *hold) bool {
	switch f.kind {
	case Revoke:
		return f.target == "lease "+itoa(h.lease)
	case DeleteKey:
		return f.target == "token "+itoa(h.token) || h.got == 0 && !r.granted[f.target]
	}
	return false
}

// takenAway is when the hold's key was deleted from outside, at the earliest and at the latest; never if it was not.
func (r *run) takenAway(h *hold) (from, to int64) {
	f := r.taking(h)
	return f.begin, f.end
}

// taking is the fault that did it, one that is never if none did.
func (r *run) taking(h *hold) fault {
	for _, f := range r.faults {
		if r.takes(f, h) {
			return f
		}
	}
	return fault{begin: never, end: never}
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

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
