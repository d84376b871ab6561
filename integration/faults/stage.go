//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"testing"
)

// stage is the testing.TB of a run, for servers and processes that are made for tests. Whatever fails on it ends the run,
// a server that is missing as well: nothing is skipped. It has what they use of a testing.TB, and no more.
type stage struct {
	testing.TB
	ctx    context.Context
	cancel context.CancelCauseFunc
	log    io.Writer

	mu       sync.Mutex
	failures []string // guarded by mu
	cleanups []func() // guarded by mu
}

func newStage(ctx context.Context, log io.Writer) *stage {
	s := &stage{log: log}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	return s
}

// do runs fn, and everything that Cleanup was given, the last first. The error is what failed first; the log has all.
func (s *stage) do(fn func()) error {
	s.wait(fn)
	for {
		s.mu.Lock()
		n := len(s.cleanups)
		if n == 0 {
			break
		}
		last := s.cleanups[n-1]
		s.cleanups = s.cleanups[:n-1]
		s.mu.Unlock()
		s.wait(last)
	}
	defer s.mu.Unlock()
	s.cancel(nil)
	if len(s.failures) == 0 {
		return nil
	}
	// What came after the first is mostly due to it.
	for _, f := range s.failures {
		fmt.Fprintln(s.log, f)
	}
	return errors.New(s.failures[0])
}

// wait runs fn on a goroutine of its own, which FailNow may end.
func (s *stage) wait(fn func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn()
	}()
	<-done
}

func (s *stage) Context() context.Context { return s.ctx }
func (s *stage) Helper()                  {}
func (s *stage) Name() string             { return "faults" }

func (s *stage) Cleanup(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cleanups = append(s.cleanups, fn)
}

func (s *stage) Failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.failures) > 0
}

func (s *stage) fail(text string) {
	s.mu.Lock()
	s.failures = append(s.failures, text)
	s.mu.Unlock()
	s.cancel(fmt.Errorf("the run failed: %s", text))
}

func (s *stage) FailNow() {
	if !s.Failed() {
		s.fail("failed")
	}
	runtime.Goexit()
}

func (s *stage) Error(args ...any)                 { s.fail(fmt.Sprint(args...)) }
func (s *stage) Errorf(format string, args ...any) { s.fail(fmt.Sprintf(format, args...)) }
func (s *stage) Log(args ...any)                   { fmt.Fprintln(s.log, args...) }
func (s *stage) Logf(format string, args ...any)   { fmt.Fprintf(s.log, format+"\n", args...) }
func (s *stage) Skip(args ...any)                  { s.Fatal(args...) }

func (s *stage) Fatal(args ...any) {
	s.fail(fmt.Sprint(args...))
	runtime.Goexit()
}

func (s *stage) Fatalf(format string, args ...any) {
	s.fail(fmt.Sprintf(format, args...))
	runtime.Goexit()
}

func (s *stage) TempDir() string {
	dir, err := os.MkdirTemp("", "faults-")
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
