//go:build unix

package main

import (
	"testing"

	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
	"github.com/fencedlock/fencedlock/integration/faults/internal/worker"
)

// A check takes a fault for an excuse, and some for evidence. So it must know which of them are certain.
func TestTheHistoryTellsWhichFaultsAreCertain(t *testing.T) {
	t.Parallel()
	all := smallStage(t, worker.Guarded, 0, func(n *nemesis) {
		for kind, e := range map[string]effect{"struck": struck, "perhaps": perhaps} {
			n.faults = map[string]fault{kind: func(*nemesis, step) (strike, error) {
				return strike{target: "w0.0", effect: func() effect { return e }}, nil
			}}
			n.strike(step{kind: kind})
		}
	})
	seen := 0
	for _, e := range all {
		if e.Kind != history.Begin {
			continue
		}
		seen++
		if (e.Err == "") != (e.Fault == "struck") {
			t.Errorf("%+v", e)
		}
	}
	if seen != 2 {
		t.Errorf("%d faults are in the history", seen)
	}
}
