//go:build unix

package main

import (
	"context"
	"strconv"
	"time"

	"github.com/fencedlock/fencedlock/integration/faults/internal/check"
	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
)

const (
	// A moment that should be over after tick, and is not for longer than stall beside, was one in which nothing ran: a
	// session gives up a request after that time.
	tick  = 50 * time.Millisecond
	stall = ttl / 6
)

// watchStalls writes down when the machine stood still, which nobody who then lost a lock can help. It is no fault of the
// schedule, and not counted.
func watchStalls(ctx context.Context, rec *history.Recorder, now func() int64, sleep func(time.Duration)) {
	for n := 0; ctx.Err() == nil; {
		from := now()
		sleep(tick)
		if now()-from < int64(tick+stall) {
			continue
		}
		n++
		e := history.Event{T: from, Kind: history.Begin, Op: "stall " + strconv.Itoa(n), Fault: check.Stall, Target: "machine"}
		rec.Add(e)
		e.T, e.Kind = now(), history.End
		rec.Add(e)
	}
}
