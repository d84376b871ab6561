//go:build unix

package story

import (
	"context"
	"errors"
	"syscall"
	"time"
)

// LateWriter tells what all examples are about: A gets the lock and is stopped before its write; B, whose wait ends with A's
// lease, writes; then A is continued, comes to the step want, and finds its lock lost. Between the two writes it calls meanwhile.
func (s *Stage) LateWriter(ctx context.Context, lease time.Duration, jobA, jobB any, meanwhile func() error, want string) error {
	a, err := s.Start(ctx, "A", jobA)
	if err != nil {
		return err
	}
	defer a.End()
	if err := s.Hear(ctx, a, "holds", "ready"); err != nil {
		return err
	}
	if err := a.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	s.Say("A", "is stopped (SIGSTOP to process %d), as if its machine froze; its lease lasts %v", a.PID(), lease)

	b, err := s.Start(ctx, "B", jobB)
	if err != nil {
		return err
	}
	defer b.End()
	s.Say("B", "wants the lock (process %d) and has to wait", b.PID())
	if err := s.Hear(ctx, b, "holds", "ready"); err != nil {
		return err
	}
	if err := b.goOn(); err != nil {
		return err
	}
	if err := s.Hear(ctx, b, "written", "released"); err != nil {
		return err
	}
	if err := b.wait(ctx); err != nil {
		return err
	}

	if err := meanwhile(); err != nil {
		return err
	}
	if err := errors.Join(a.goOn(), a.signal(syscall.SIGCONT)); err != nil {
		return err
	}
	s.Say("A", "is continued, and does not know that time has passed")
	if err := s.Hear(ctx, a, want, "lost"); err != nil {
		return err
	}
	return a.wait(ctx)
}
