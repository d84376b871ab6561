//go:build unix

package s3test

import (
	"sync"
	"testing"

	"github.com/fencedlock/fencedlock/internal/daemon"
)

// shared is the one server of this test process, for tests that are content with a bucket of their own.
var shared struct {
	once sync.Once
	s    *Server
	err  error
}

// Shared returns the server that all tests of this process use. It is for tests that do not stop it. The package's
// TestMain must run [Main].
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.once.Do(func() { shared.s, shared.err = start() })
	if shared.err != nil {
		daemon.Unavailable(t, shared.err)
	}
	return shared.s
}

type runner interface{ Run() int }

type main struct{ m runner }

// Main wraps a testing.M, or what wraps one already, so that the shared server is stopped after the tests:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(s3test.Main(m)) }
func Main(m runner) interface{ Run() int } { return main{m} }

// Run runs the tests and stops the server.
func (w main) Run() int {
	defer func() {
		if shared.s != nil {
			shared.s.Close()
		}
	}()
	return w.m.Run()
}
