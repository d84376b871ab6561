//go:build unix

package pgtest

import (
	"fmt"
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

// Shared returns the server that all tests of this process use, started at the first call without fsync. It is for
// tests that neither stop nor configure it. The package's TestMain must run [Main].
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.once.Do(func() { shared.s, shared.err = start(false) })
	if shared.err != nil {
		daemon.Unavailable(t, shared.err)
	}
	return shared.s
}

// Database returns the connection string of an empty database on the shared server, for this test alone.
func Database(t testing.TB) string {
	t.Helper()
	return Shared(t).Database(t)
}

// Schema returns the connection string of an empty schema on the shared server, for this test alone: a search path in a
// database that others use too. It is there in a hundredth of the time that a database takes.
func Schema(t testing.TB) string {
	t.Helper()
	s := Shared(t)
	name := fmt.Sprintf("s%d", s.names.Add(1))
	if err := s.exec("CREATE SCHEMA " + name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.exec("DROP SCHEMA " + name + " CASCADE"); err != nil {
			t.Error(err)
		}
	})
	return s.DSN("postgres") + "&search_path=" + name
}

type runner interface{ Run() int }

type main struct{ m runner }

// Main wraps a testing.M so that the shared server is stopped after the tests:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Main(m)) }
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
