// Package guardtest is the suite that every guard passes: it finds the guard that lets a late write in, loses a mark or
// says that it knows what it cannot know. It is for the guards of this module and for those that users write.
//
//	func TestGuard(t *testing.T) {
//		guardtest.Run(t, func(t *testing.T) guardtest.Store {
//			g := newGuard(t) // empty, and cleaned up with t; it has Seal and Highest
//			return guardtest.Store{
//				Sealer: g,
//				Write: func(ctx context.Context, resource string, tok guard.Token, value string) error {
//					return g.Put(ctx, resource, tok, value)
//				},
//				Read: func(ctx context.Context, resource string) (string, error) {
//					return g.Get(ctx, resource)
//				},
//				Delete: func(ctx context.Context, resource string, tok guard.Token) error {
//					return g.Remove(ctx, resource, tok)
//				},
//				Without: map[guardtest.Capability]string{
//					guardtest.Restart:     "it lives in the process",
//					guardtest.LoseReply:   "a call in the process has no reply to lose",
//					guardtest.LoseRequest: "a call in the process has no request to lose",
//				},
//			}
//		})
//	}
//
// It finds faults by trying, races included, so passing it is no proof. It imports the standard library and guard only.
package guardtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fencedlock/fencedlock/guard"
)

// Store is a guard over a storage, seen through the few operations that the suite needs. All but Restart are called from
// several goroutines at once. Each context governs its call.
type Store struct {
	// Sealer is the guard itself.
	guard.Sealer

	// Write makes value the content of resource, guarded by tok: the operation under test. Each resource has one value.
	Write func(ctx context.Context, resource string, tok guard.Token, value string) error

	// Read returns the content of resource, "" if there is none. It takes no token, and sees every write that was
	// acknowledged before it was called.
	Read func(ctx context.Context, resource string) (string, error)

	// Delete removes the content of resource, guarded by tok.
	Delete func(ctx context.Context, resource string, tok guard.Token) error

	// Restart ends the storage and starts it again with what it has kept. The operations may fail for a while after it.
	Restart func(ctx context.Context) error

	// LoseReply is Write, whereby the storage applies the write and its answer never arrives; later operations work
	// again. It returns what the guard returned.
	LoseReply func(ctx context.Context, resource string, tok guard.Token, value string) error

	// LoseRequest is Write, whereby the request that would apply the write never arrives, nor does any that the guard
	// sends again; the storage stays as it was, and later operations work again. It returns what the guard returned.
	LoseRequest func(ctx context.Context, resource string, tok guard.Token, value string) error

	// Busy tells whether err is this guard's way to say that it gave up under contention and that nothing was applied.
	// nil: it never gives up.
	Busy func(err error) bool

	// Without says why this store has no Delete, Restart, LoseReply or LoseRequest. A capability is either there or excused here:
	// the suite fails otherwise, so that nothing is left out by mistake.
	Without map[Capability]string
}

// Capability is an operation that not every storage has.
type Capability string

// The capabilities of a [Store], named like its fields.
const (
	Delete      Capability = "Delete"
	Restart     Capability = "Restart"
	LoseReply   Capability = "LoseReply"
	LoseRequest Capability = "LoseRequest"
)

// complete returns, in one line, what is wrong with the store as a subject of the suite.
func (s Store) complete() error {
	var wrong, missing []string
	for _, need := range []struct {
		name string
		has  bool
	}{{"Sealer", s.Sealer != nil}, {"Write", s.Write != nil}, {"Read", s.Read != nil}} {
		if !need.has {
			missing = append(missing, "Store."+need.name)
		}
	}
	if missing != nil {
		wrong = append(wrong, "set "+strings.Join(missing, ", "))
	}
	has := map[Capability]bool{Delete: s.Delete != nil, Restart: s.Restart != nil, LoseReply: s.LoseReply != nil, LoseRequest: s.LoseRequest != nil}
	for _, c := range slices.Sorted(maps.Keys(s.Without)) {
		if _, known := has[c]; !known || s.Without[c] == "" {
			wrong = append(wrong, fmt.Sprintf("Store.Without[%.20q] = %.20q needs the name of a capability, and a reason", c, s.Without[c]))
		}
	}
	for _, c := range []Capability{Delete, Restart, LoseReply, LoseRequest} {
		if _, excused := s.Without[c]; excused == has[c] {
			wrong = append(wrong, fmt.Sprintf("set either Store.%s or Store.Without[%q]", c, c))
		}
	}
	if wrong == nil {
		return nil
	}
	return errors.New("guardtest: the Store is incomplete: " + strings.Join(wrong, "; "))
}
