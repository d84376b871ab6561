package fileguard

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/fencedlock/fencedlock/guard"
)

const account, accountFile = "account/1", "account.json"

// step of a story: one call, and what it may leave.
type call struct {
	tok    guard.Token
	value  string // what the file holds after it; "": it is removed, or was not there
	seal   bool   // only the mark is raised
	remove bool
}

func (c call) run(t testing.TB, g *Guard) error {
	switch {
	case c.seal:
		return g.Seal(t.Context(), account, c.tok)
	case c.remove:
		return g.Remove(t.Context(), account, c.tok, accountFile)
	}
	return g.WriteFile(t.Context(), account, c.tok, accountFile, []byte(c.value), 0o600)
}

// story is what was called, in order, on one tape. It knows what may be found after a power failure at any moment.
type story struct {
	tape  *tape
	calls []call
	errs  []error
}

// run makes a call and notes that it was reported.
func (s *story) run(t testing.TB, g *Guard, c call) error {
	s.calls = append(s.calls, c)
	err := c.run(t, g)
	s.errs = append(s.errs, err)
	s.tape.add(event{kind: reported})
	return err
}

// bounds is what must hold when n calls were reported: of the file, what was reported last or anything that was tried since,
// and of the mark, at least what was reported or seen in a refusal, and no more than was tried.
func (s *story) bounds(n int) (values []string, low, high guard.Token) {
	values = []string{""}
	for i, c := range s.calls[:min(n+1, len(s.calls))] { // and the one that is under way
		var stale *guard.StaleError
		switch {
		case i < n && errors.As(s.errs[i], &stale):
			low = max(low, stale.Highest)
			continue
		case i < n && s.errs[i] == nil:
			low = max(low, c.tok)
			if !c.seal {
				values = nil
			}
		}
		high = max(high, c.tok)
		if !c.seal {
			values = append(values, c.value)
		}
	}
	return values, low, high
}

// checker looks at states, at each once.
type checker struct {
	dir  string
	seen map[string]bool
}

func newChecker(t testing.TB) *checker {
	return &checker{filepath.Join(memoryDir(t), "after"), make(map[string]bool)}
}

// powerLossAnywhere lets the power fail after each event of the story from the given one on.
func (c *checker) powerLossAnywhere(t testing.TB, what string, s *story, from int) {
	t.Helper()
	n := 0
	for i := range s.tape.events {
		if s.tape.events[i].kind == reported {
			n++
		}
		if i < from {
			continue
		}
		values, low, high := s.bounds(n)
		for _, state := range afterPowerLoss(s.tape.events[:i+1]) {
			key := fmt.Sprint(values, low, high)
			for _, name := range slices.Sorted(maps.Keys(state)) {
				if !strings.HasPrefix(filepath.Base(name), tempPrefix) {
					key += fmt.Sprintf("|%s=%q", name, state[name])
				}
			}
			if c.seen[key] {
				continue
			}
			c.seen[key] = true
			if err := c.check(t, state, values, low, high); err != nil {
				t.Fatalf("%s; power failure after event %d, %d calls reported, which leaves %q: %v", what, i, n, state, err)
			}
		}
	}
}

// check starts the guard again on what a power failure has left.
func (c *checker) check(t testing.TB, state map[string]string, values []string, low, high guard.Token) error {
	t.Helper()
	restore(t, c.dir, state)
	g, err := New(c.dir, nil)
	if err != nil {
		return err
	}
	value := content(t, c.dir, accountFile)
	mark, err := g.Highest(t.Context(), account)
	switch {
	case err != nil:
		return err
	case mark < low || mark > high:
		return fmt.Errorf("the mark is %d; want one between %d and %d", mark, low, high)
	case !slices.Contains(values, value):
		return fmt.Errorf("the file holds %q; want one of %q", value, values)
	}
	if by, _, written := strings.Cut(value, " "); written {
		if tok, err := guard.ParseToken(by); err != nil || tok > mark {
			return fmt.Errorf("the file holds %q, and the mark is only %d (%v): it is open to late writers", value, mark, err)
		}
	}
	if low > 1 {
		late := call{tok: low - 1, value: "late"}
		if err := late.run(t, g); !errors.Is(err, guard.ErrStale) {
			return fmt.Errorf("a write with %d: %v; want ErrStale", low-1, err)
		}
	}
	next := call{tok: max(high, 1), value: "next"}
	if err := next.run(t, g); err != nil {
		return fmt.Errorf("the next write: %w", err)
	}
	if got := content(t, c.dir, accountFile); got != "next" {
		return fmt.Errorf("after the next write it holds %q", got)
	}
	if left := leftovers(t, c.dir); left != nil {
		return fmt.Errorf("left behind: %q", left)
	}
	return nil
}

// Old state after a write that was reported, or a file of no length, comes from a missing sync or a wrong order:
// https://github.com/forgekeep/nebula-mesh/pull/250, https://github.com/itlackey/akm/issues/472,
// https://github.com/saltstack/salt/issues/69583, https://github.com/fabriziosalmi/proxxx/issues/268
func TestPowerFailureAtAnyStepLeavesTheOldStateOrTheNew(t *testing.T) {
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
	for _, later := range [][]call{
		{{tok: 9, value: "9 again"}},                                         // the same holder, started again
		{{tok: 9, remove: true}},                                             // the same, removing
		{{tok: 9, seal: true}},                                               // the same, sealing
		{{tok: 5, value: "5 late"}, {tok: 12, seal: true}},                   // a late one, who may see the mark, and the next
		{{tok: 12, value: "12 a"}, {tok: 9, value: "9 late"}},                // the next, and the killed one's brother
		{{tok: 5, seal: true}, {tok: 9, seal: true}, {tok: 5, remove: true}}, // late ones, before and after
	} {
		eachFault(t, later, true, false)
	}
}

// An error of fsync is given once, and what was not written then counts as written: https://wiki.postgresql.org/wiki/Fsync_Errors
func TestFailureOfAnyStepIsReportedAndCostsNothing(t *testing.T) {
	for _, same := range []bool{true, false} {
		for _, later := range [][]call{
			{{tok: 9, value: "9 again"}}, {{tok: 9, seal: true}}, {{tok: 12, value: "12 a"}}, {{tok: 5, value: "5 late"}, {tok: 9, remove: true}},
		} {
			eachFault(t, later, false, same)
		}
	}
}

// eachFault writes with 5, and then makes another call, in which one call to the disk fails, each in turn, and when killed is
// true all that follow. Then come the later calls, from the same guard or from a new one, and the power fails at each step.
func eachFault(t *testing.T, later []call, killed, same bool) {
	t.Helper()
	c := newChecker(t)
	dir := memoryDir(t)
	for _, second := range []call{{tok: 9, value: "9 a"}, {tok: 9, remove: true}, {tok: 9, seal: true}, {tok: 5, value: "5 b"}} {
		for at, hit := 1, true; hit; at++ {
			hit = false
			calls, armed := 0, false
			fault := func(string, string) error {
				if !armed {
					return nil
				}
				calls++
				if calls == at || killed && calls > at {
					hit = true
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
	t.Logf("then %+v: %d different states", later, len(c.seen))
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
