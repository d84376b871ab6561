//go:build unix

package mariadbtest

import (
	"sync"
	"testing"

	"github.com/fencedlock/fencedlock/internal/daemon"
)

// shared is the one server of this test process, for tests that are content with a database of their own.
var shared struct {
	once sync.Once
	s    *Server
	err  error
}

// Database returns the data source name of an empty database, for this test alone, on the server that all tests of this
// process use. It is for tests that neither stop nor configure it. The package's TestMain must run [Main].
func Database(t testing.TB) string {
	t.Helper()
	shared.once.Do(func() { shared.s, shared.err = start(false) })
	if shared.err != nil {
		daemon.Unavailable(t, shared.err)
	}
	return shared.s.Database(t)
}

type runner interface{ Run() int }

type main struct{ m runner }

// Main wraps a testing.M, or what wraps one already, so that the shared server is stopped after the tests:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(mariadbtest.Main(m)) }
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
