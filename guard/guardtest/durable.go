package guardtest

import (
	"context"
	"errors"
	"time"

	"github.com/fencedlock/fencedlock/guard"
)

// checkRestart: the mark outlives the storage's process.
func checkRestart(ctx context.Context, s Store) error {
	var f findings
	const r = "restart"
	f.accepted("write", s.Write(ctx, r, 5, "a"))
	f.accepted("Seal", s.Seal(ctx, "restart, sealed", 6))
	f.accepted("Restart", s.Restart(ctx))
	f.accepted("Highest after the restart", settle(ctx, func() error { _, err := s.Highest(ctx, r); return err }))
	f.stale("late write after the restart", settle(ctx, func() error { return s.Write(ctx, r, 4, "late") }), r, 4, 5)
	f.holds(ctx, s, r, "a", 5)
	f.holds(ctx, s, "restart, sealed", "", 6)
	f.accepted("the holder's next write", settle(ctx, func() error { return s.Write(ctx, r, 5, "b") }))
	f.holds(ctx, s, r, "b", 5)
	return f.err()
}

// settle runs an operation until it gets an answer from the storage; after a restart the old connections are dead.
func settle(ctx context.Context, op func() error) error {
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		err := op()
		if err == nil || errors.Is(err, guard.ErrStale) || ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
	}
}

// checkLostReply: a write that was applied without an answer is not reported as failed or refused.
func checkLostReply(ctx context.Context, s Store) error {
	var f findings
	const r = "lost reply"
	f.accepted("write", s.Write(ctx, r, 4, "a"))
	for _, tok := range []guard.Token{5, 5, 6} { // raising the mark, leaving it, raising it
		value := "lost " + tok.String()
		err := s.LoseReply(ctx, r, tok, value)
		// nil is right for a guard that has read back and found its own write.
		if err != nil && !errors.Is(err, guard.ErrUnknown) || errors.Is(err, guard.ErrStale) {
			f.add("token %d, applied, reply lost: %v; want ErrUnknown, or nil from a guard that has read back", int64(tok), err)
		}
		f.holds(ctx, s, r, value, tok)
	}
	f.accepted("the holder's next write", settle(ctx, func() error { return s.Write(ctx, r, 6, "b") }))
	f.stale("write of the earlier holder", s.Write(ctx, r, 5, "late"), r, 5, 6)
	f.holds(ctx, s, r, "b", 6)
	return f.err()
}

// checkLostRequest: a write that never arrived is not reported as applied or refused, and leaves nothing behind.
func checkLostRequest(ctx context.Context, s Store) error {
	var f findings
	const r = "lost request"
	lost := func(tok guard.Token, value string, mark guard.Token) {
		err := s.LoseRequest(ctx, r, tok, "lost")
		if err == nil || errors.Is(err, guard.ErrStale) {
			f.add("token %d after %d, request lost, not applied: %v; want ErrUnknown, or an error that is not ErrStale", int64(tok), int64(mark), err)
		}
		f.holds(ctx, s, r, value, mark)
	}
	lost(4, "", 0) // where nothing was marked
	f.accepted("write", settle(ctx, func() error { return s.Write(ctx, r, 4, "a") }))
	lost(4, "a", 4) // leaving the mark
	lost(5, "a", 4) // raising it
	f.accepted("the holder's next write", settle(ctx, func() error { return s.Write(ctx, r, 4, "b") }))
	f.holds(ctx, s, r, "b", 4)
	return f.err()
}
