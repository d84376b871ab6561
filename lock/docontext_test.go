package lock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

func TestDoHandsTheCallersDeadlineToItsFunction(t *testing.T) {
	s := open(t, direct, session.Options{Namespace: namespace(t)})
	m := lock.NewMutex(s, "job")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	want, _ := ctx.Deadline()
	err := m.Do(ctx, func(ctx context.Context, h *lock.Held) error {
		if got, ok := ctx.Deadline(); !ok || !got.Equal(want) {
			t.Errorf("fn's deadline is %v (%v), want the caller's %v", got, ok, want)
		}
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Do = %v, want DeadlineExceeded as the caller's context has", err)
	}
}

func TestDoWithoutAFunctionTakesNoLock(t *testing.T) {
	s := open(t, direct, session.Options{Namespace: namespace(t)})
	if err := lock.NewMutex(s, "job").Do(t.Context(), nil); err == nil {
		t.Error("Do(ctx, nil) = nil, want an error")
	}
}
