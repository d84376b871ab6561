//go:build unix

package daemon

import (
	"sync"
	"testing"
)

// ForTest starts a server for one test and stops it at the test's end. Without it the test is skipped, or fails.
func ForTest[S interface{ Close() }](t testing.TB, start func() (S, error)) S {
	t.Helper()
	s, err := start()
	if err != nil {
		Unavailable(t, err)
	}
	t.Cleanup(s.Close)
	return s
}

// Shared is the one server of a test process, started at the first call of Get. The zero value is ready to use.
type Shared[S interface{ Close() }] struct {
	once    sync.Once
	server  S
	err     error
	running bool
}

// Get returns the server, which start starts unless it runs already. Without it the test is skipped, or fails.
func (s *Shared[S]) Get(t testing.TB, start func() (S, error)) S {
	t.Helper()
	s.once.Do(func() {
		s.server, s.err = start()
		s.running = s.err == nil
	})
	if s.err != nil {
		Unavailable(t, s.err)
	}
	return s.server
}

// Fail lets each Get find that the server could not be started, as on a machine without it. It comes before the first Get.
func (s *Shared[S]) Fail(err error) { s.once.Do(func() { s.err = err }) }

// Runner is what a testing.M is, and what goleak takes.
type Runner interface{ Run() int }

// Main wraps a testing.M, or what wraps one already, so that the server is stopped after the tests.
func (s *Shared[S]) Main(m Runner) Runner {
	return runner(func() int {
		defer func() {
			if s.running {
				s.server.Close()
			}
		}()
		return m.Run()
	})
}

type runner func() int

func (r runner) Run() int { return r() }
