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

func (f fault) pauses(who string) bool { return strings.HasPrefix(f.kind, Pause) && f.target == who }

func (r *run) paused(h *hold) bool {
	return slices.ContainsFunc(r.faults, func(f fault) bool { return f.pauses(h.who) && f.overlaps(h.ask, h.got) })
}

// takenAway is when the hold's key was deleted from outside, at the earliest and at the latest; never if it was not.
func (r *run) takenAway(h *hold) (from, to int64) {
	for _, f := range r.faults {
		if f.kind == Revoke && f.target == "lease "+itoa(h.lease) ||
			f.kind == DeleteKey && f.target == "token "+itoa(h.token) {
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

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
