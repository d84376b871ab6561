package fileguard

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/guard"
)

const account, accountFile = "account/1", "account.json"

// call is one of a story.
type call struct {
	tok    guard.Token
	value  string // what the file holds after it; "": it is removed, or was not there
	seal   bool   // only the mark is raised
	remove bool
	look   bool // the mark is only asked for, and becomes tok
}

func (c *call) run(t testing.TB, g *Guard) (err error) {
	switch {
	case c.look:
		c.tok, err = g.Highest(t.Context(), account)
		return err
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
	err := c.run(t, g)
	s.calls = append(s.calls, c)
	s.errs = append(s.errs, err)
	s.tape.add(event{kind: reported})
	return err
}

// bounds is what must hold when n calls were reported: of the file, what was reported last or anything that was tried since,
// and of the mark, at least what was reported, told, or seen in a refusal, and no more than was tried.
func (s *story) bounds(n int) (values []string, low, high guard.Token) {
	values = []string{""}
	for i, c := range s.calls[:min(n+1, len(s.calls))] { // and the one that is under way
		var stale *guard.StaleError
		switch {
		case i < n && errors.As(s.errs[i], &stale):
			low = max(low, stale.Highest)
			continue
		case c.look:
			if i < n && s.errs[i] == nil {
				low = max(low, c.tok)
			}
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
	// Somebody comes, and is killed while it writes the new mark.
	next := call{tok: high + 1, value: "next"}
	dead := false
	err = next.run(t, newHooked(t, c.dir, nil, func(op, name string) error {
		if dead = dead || op == "sync" && strings.HasSuffix(name, ".new"); dead {
			return errKilled
		}
		return nil
	}))
	if got, errHighest := g.Highest(t.Context(), account); !errors.Is(err, errKilled) || got != mark || errHighest != nil {
		return fmt.Errorf("after one who was killed (%v) the mark is %d, %v; want %d", err, got, errHighest, mark)
	}
	// A new guard removes what it left. A child process that another test starts has the lock on it as well, until it runs
	// its own program.
	for range 100 {
		if g = mustNew(t, c.dir, nil); leftovers(t, c.dir) == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
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
