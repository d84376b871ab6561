//go:build unix

package main

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/integration/faults/internal/check"
	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
)

func TestAMachineThatStandsStillIsWrittenDown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stalls.jsonl")
	rec, err := history.NewRecorder(path, "nemesis")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	clock, late := int64(time.Hour), []time.Duration{0, stall - 1, time.Second, 0}
	watchStalls(ctx, rec, func() int64 { return clock }, func(d time.Duration) {
		clock += int64(d + late[0])
		if late = late[1:]; len(late) == 0 {
			cancel()
		}
	})
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	events, err := history.ReadFile(path)
	if err != nil || len(events) != 2 {
		t.Fatalf("%+v, %v", events, err)
	}
	from := int64(time.Hour + 2*tick + stall - 1)
	if b, e := events[0], events[1]; b.Kind != history.Begin || e.Kind != history.End || b.Fault != check.Stall || b.Op != e.Op ||
		b.T != from || e.T != from+int64(tick+time.Second) {
		t.Errorf("%+v", events)
	}
}
