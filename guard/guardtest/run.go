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
	{"ManyResources", "", checkManyResources},
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
//
//   - Store: the Store is complete; if not, nothing else runs.
//   - Order: equal and higher tokens are applied, lower ones are refused and change nothing.
//   - BadTokens: 0 and negative numbers are refused with [guard.ErrNoToken].
//   - WideTokens: tokens up to 2^63-1 stay apart and in the order of numbers.
//   - BadNames: names that [guard.CheckResource] refuses are refused.
//   - Names: each name, byte by byte, has a mark and content of its own.
//   - ManyResources: the first of some hundreds of resources has kept its mark.
//   - Values: content of any kind, nothing and 1 MiB included, is kept and guarded.
//   - Seal: it raises the mark and leaves the content alone.
//   - SealBeforeRead: what a holder reads after its Seal is not changed by earlier holders.
//   - Cancelled: a call whose context has ended changes nothing and returns the context's error.
//   - FirstUse: of two writers at an unmarked resource, the higher token wins.
//   - ConcurrentWriters: calls of many writers are explained by some order of single steps.
//   - StaleAfterDelete: the mark outlives the content.
//   - LateDelete: a deletion takes nothing from a later holder who comes while it runs.
//   - Restart: the mark outlives the storage's process.
//   - LostReply: a write that was applied without an answer is unknown or applied, never failed or stale.
//   - LostRequest: a write that never arrived is unknown or failed, never applied or stale, and leaves nothing behind.
func Run(t *testing.T, open func(t *testing.T) Store) {
	complete := func(t *testing.T) Store {
		s := open(t)
		if err := s.complete(); err != nil {
			t.Fatal(err)
		}
		return s
	}
	if !t.Run("Store", func(t *testing.T) { complete(t) }) {
		return
	}
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			s := complete(t)
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
		show := func(e guard.StaleError) string {
			return fmt.Sprintf("StaleError{Resource: %.20q, Token: %d, Highest: %d}", e.Resource, int64(e.Token), int64(e.Highest))
		}
		f.add("%s: %s; want %s", what, show(*stale), show(want))
	case errors.Is(err, guard.ErrUnknown):
		f.add("%s: %v is both stale and unknown", what, err)
	}
}

// holds reports a resource whose content or mark is not the given one.
func (f *findings) holds(ctx context.Context, s Store, resource, value string, mark guard.Token) {
	if got, err := s.Read(ctx, resource); err != nil || got != value {
		f.add("%.20q: Read = %.20q, %v; want %.20q", resource, got, err, value)
	}
	if got, err := s.Highest(ctx, resource); err != nil || got != mark {
		f.add("%.20q: Highest = %d, %v; want %d", resource, int64(got), err, int64(mark))
	}
}
