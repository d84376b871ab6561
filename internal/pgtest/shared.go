//go:build unix

package pgtest

import (
	"fmt"
	"testing"

	"github.com/fencedlock/fencedlock/internal/daemon"
)

// shared is for tests that are content with a database of their own.
var shared daemon.Shared[*Server]

// Shared returns the server that all tests of this process use, started at the first call without fsync. It is for
// tests that neither stop nor configure it. The package's TestMain must run [Main].
func Shared(t testing.TB) *Server {
	t.Helper()
	return shared.Get(t, func() (*Server, error) { return start(false) })
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

// Main wraps a testing.M so that the shared server is stopped after the tests:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Main(m)) }
func Main(m daemon.Runner) daemon.Runner { return shared.Main(m) }
