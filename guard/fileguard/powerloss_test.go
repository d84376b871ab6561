package fileguard

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/fencedlock/fencedlock/guard"
)

// Old state after a write that was reported, or a file of no length, comes from a missing sync or a wrong order:
// https://github.com/forgekeep/nebula-mesh/pull/250, https://github.com/itlackey/akm/issues/472,
// https://github.com/saltstack/salt/issues/69583, https://github.com/fabriziosalmi/proxxx/issues/268
func TestPowerFailureAtAnyStepLeavesTheOldStateOrTheNew(t *testing.T) {
	t.Parallel()
	s := &story{tape: newTape()}
	g, err := s.tape.guard(t, memoryDir(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []call{
		{tok: 5, value: "5 a"}, {tok: 5, value: "5 b"}, {tok: 9, value: "9 a"}, {tok: 9, remove: true}, {tok: 9, remove: true},
		{tok: 12, seal: true}, {tok: 12, value: "12 a"}, {tok: 14, remove: true}, {tok: 14, value: "14 a"},
	} {
		if err := s.run(t, g, c); err != nil {
			t.Fatal(err)
		}
	}
	c := newChecker(t)
	c.powerLossAnywhere(t, "one process", s, 0)
	t.Logf("%d events, %d different states", len(s.tape.events), len(c.seen))
}

// What a process that was killed has left looks finished and is not on the disk. Whoever goes on from there, and is told
// that its own write is, must not find the mark gone after a power failure.
func TestPowerFailureAfterAKillLosesNothingThatWasReported(t *testing.T) {
	t.Parallel()
	c := newChecker(t)
	for _, later := range [][]call{
		{{tok: 9, value: "9 again"}},                                         // the same holder, started again
		{{tok: 9, remove: true}},                                             // the same, removing
		{{tok: 9, seal: true}},                                               // the same, sealing
		{{tok: 5, value: "5 late"}, {tok: 12, seal: true}},                   // a late one, who may see the mark, and the next
		{{tok: 12, value: "12 a"}, {tok: 9, value: "9 late"}},                // the next, and the killed one's brother
		{{tok: 5, seal: true}, {tok: 9, seal: true}, {tok: 5, remove: true}}, // late ones, before and after
		{{look: true}}, // one who only asks
	} {
		eachFault(t, c, later, true, false)
	}
}

// An error of fsync is given once, and what was not written then counts as written: https://wiki.postgresql.org/wiki/Fsync_Errors
func TestFailureOfAnyStepIsReportedAndCostsNothing(t *testing.T) {
	t.Parallel()
	c := newChecker(t)
	for _, same := range []bool{true, false} {
		for _, later := range [][]call{
			{{tok: 9, value: "9 again"}}, {{tok: 9, seal: true}}, {{tok: 12, value: "12 a"}}, {{tok: 5, value: "5 late"}, {tok: 9, remove: true}},
		} {
			eachFault(t, c, later, false, same)
		}
	}
}

// The folder of marks is lost with its name, and all marks with it. That it is there does not mean that it is there to stay.
func TestPowerFailureAfterANewThatWasKilledLosesNoMark(t *testing.T) {
	t.Parallel()
	c := newChecker(t)
	for at, hit := 1, true; hit; at++ {
		hit = false
		calls := 0
		dir := memoryDir(t)
		s := &story{tape: newTape()}
		_, err := s.tape.guard(t, dir, func(string, string) error {
			if calls++; calls >= at {
				hit = true
				return errKilled
			}
			return nil
		})
		if hit != (err != nil) {
			t.Fatalf("New with a fault at call %d: %v", at, err)
		}
		g, err := s.tape.guard(t, dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.run(t, g, call{tok: 9, value: "9 a"}); err != nil {
			t.Fatal(err)
		}
		c.powerLossAnywhere(t, fmt.Sprintf("New killed at call %d", at), s, 0)
	}
}

// eachFault writes with 5, and then makes another call, in which one call to the disk fails, each in turn, and when killed is
// true all that follow. Then come the later calls, from the same guard or from a new one, and the power fails at each step.
func eachFault(t *testing.T, c *checker, later []call, killed, same bool) {
	t.Helper()
	dir := memoryDir(t)
	for _, second := range []call{{tok: 9, value: "9 a"}, {tok: 9, remove: true}, {tok: 9, seal: true}, {tok: 5, value: "5 b"}} {
		for at, hit := 1, true; hit; at++ {
			hit = false
			calls, armed := 0, false
			fault := func(op, _ string) error {
				if !armed || killed && !hit && slices.Contains([]string{"lstat", "stat", "read", "readdir", "lock"}, op) {
					return nil // whoever is killed before it looks at something leaves what one leaves who is killed after it
				}
				calls++
				switch hit = hit || calls == at; {
				case killed && hit:
					return errKilled
				case calls == at:
					return syscall.EIO
				}
				return nil
			}
			s := &story{tape: newTape()}
			restore(t, dir, nil)
			g, err := s.tape.guard(t, dir, fault)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.run(t, g, call{tok: 5, value: "5 a"}); err != nil {
				t.Fatal(err)
			}
			armed = true
			from := len(s.tape.events)
			err = s.run(t, g, second)
			armed = false
			what := fmt.Sprintf("%+v with a fault at call %d: %v; then %+v", second, at, err, later)
			if !hit {
				if err != nil {
					t.Fatal(what)
				}
				break
			}
			if !killed { // who was, says nothing
				checkOutcome(t, what, s.tape.events[from:], second, err)
			}
			if !same {
				if g, err = s.tape.guard(t, dir, nil); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
			}
			for _, l := range later {
				if err := s.run(t, g, l); err != nil && !errors.Is(err, guard.ErrStale) {
					t.Fatalf("%s: %+v: %v", what, l, err)
				}
			}
			c.powerLossAnywhere(t, what, s, from)
		}
	}
	t.Logf("then %+v: %d different states so far", later, len(c.seen))
}

// checkOutcome compares what a call that failed has said with what it has done.
func checkOutcome(t testing.TB, what string, events []event, c call, err error) {
	t.Helper()
	done := slices.ContainsFunc(events, func(e event) bool {
		return e.kind == entry && (e.name == accountFile || c.seal && isMark(e.name))
	})
	switch {
	case err == nil, errors.Is(err, guard.ErrStale):
		t.Fatalf("%s; want another error", what)
	case errors.Is(err, guard.ErrUnknown) != done:
		t.Fatalf("%s; the change was made: %v", what, done)
	}
}

// The same without care: what the guard is there for does happen on this disk.
func TestPowerFailureUndoesCarelessWrites(t *testing.T) {
	put := func(t *testing.T, d disk, name, content string, sync bool) {
		t.Helper()
		f, err := d.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.WriteString(f, content)
		if err == nil && sync {
			err = f.Sync()
		}
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	rename := func(t *testing.T, d disk) {
		t.Helper()
		top, err := d.OpenFile(".", openFolder, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(d.Rename("fresh", accountFile, top), top.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		write func(t *testing.T, d disk)
		found string // though the write was reported
	}{
		"in place": {func(t *testing.T, d disk) { put(t, d, accountFile, "new", false) }, ""},
		"renamed, and nothing synced": {func(t *testing.T, d disk) {
			put(t, d, "fresh", "new", false)
			rename(t, d)
		}, "\x00\x00\x00"},
		"renamed, and the folder not synced": {func(t *testing.T, d disk) {
			put(t, d, "fresh", "new", true)
			rename(t, d)
		}, "old"},
	} {
		t.Run(name, func(t *testing.T) {
			real, err := openDisk(memoryDir(t))
			if err != nil {
				t.Fatal(err)
			}
			defer real.Close()
			tape := newTape()
			d := recorder{real, tape}
			put(t, d, accountFile, "old", true)
			tape.add(event{kind: syncFolder, name: "."})
			c.write(t, d)
			for _, state := range afterPowerLoss(tape.events) {
				if got, there := state[accountFile]; there && got == c.found {
					return
				}
			}
			t.Errorf("no power failure leaves %q", c.found)
		})
	}
}
