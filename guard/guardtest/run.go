package guardtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/guard"
)

// limit bounds one check, so that a guard that hangs is a failure with a name.
const limit = 2 * time.Minute

// check is one property. It returns what it found wrong; an error instead of a testing.T lets the suite be tested.
type check struct {
	name  string
	needs Capability // "": nothing that a store may lack
	run   func(ctx context.Context, s Store) error
}

var checks = []check{
	{"Order", "", checkOrder},
	{"BadTokens", "", checkBadTokens},
	{"WideTokens", "", checkWideTokens},
	{"BadNames", "", checkBadNames},
	{"Names", "", checkNames},
	{"Values", "", checkValues},
	{"Seal", "", checkSeal},
	{"SealBeforeRead", "", checkSealBeforeRead},
	{"Cancelled", "", checkCancelled},
	{"FirstUse", "", checkFirstUse},
	{"ConcurrentWriters", "", checkConcurrentWriters},
	{"StaleAfterDelete", Delete, checkStaleAfterDelete},
	{"LateDelete", Delete, checkLateDelete},
	{"Restart", Restart, checkRestart},
	{"LostReply", LoseReply, checkLostReply},
	{"LostRequest", LoseRequest, checkLostRequest},
}

// Run runs the suite, each property as a sub-test with a store of its own from open, which registers its clean-up with
// t. A property that needs what the store lacks is skipped with the reason from [Store].Without.
func Run(t *testing.T, open func(t *testing.T) Store) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			if err := s.complete(); err != nil {
				t.Fatal(err)
			}
			if why, lacks := s.Without[c.needs]; lacks {
				t.Skipf("the store has no %s: %s", c.needs, why)
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			if err := c.run(ctx, s); err != nil {
				t.Error(err)
			}
		})
	}
}

// findings collects what is wrong.
type findings []error

func (f *findings) add(format string, args ...any) { *f = append(*f, fmt.Errorf(format, args...)) }

func (f findings) err() error { return errors.Join(f...) }

// accepted reports an operation that had to succeed.
func (f *findings) accepted(what string, err error) {
	if err != nil {
		f.add("%s: %w; want nil", what, err)
	}
}

// stale reports an operation that had to be refused because of the mark highest.
func (f *findings) stale(what string, err error, resource string, tok, highest guard.Token) {
	var stale *guard.StaleError
	want := guard.StaleError{Resource: resource, Token: tok, Highest: highest}
	switch {
	case !errors.Is(err, guard.ErrStale):
		f.add("%s: %v; want ErrStale", what, err)
	case !errors.As(err, &stale):
		f.add("%s: %v is no *StaleError, so nobody sees the mark", what, err)
	case *stale != want:
		f.add("%s: %+v; want %+v", what, *stale, want)
	case errors.Is(err, guard.ErrUnknown):
		f.add("%s: %v is both stale and unknown", what, err)
	}
}

// holds reports a resource whose content or mark is not the given one.
func (f *findings) holds(ctx context.Context, s Store, resource, value string, mark guard.Token) {
	if got, err := s.Read(ctx, resource); err != nil || got != value {
		f.add("%.20q: Read = %q, %v; want %q", resource, got, err, value)
	}
	if got, err := s.Highest(ctx, resource); err != nil || got != mark {
		f.add("%.20q: Highest = %d, %v; want %d", resource, int64(got), err, int64(mark))
	}
}
