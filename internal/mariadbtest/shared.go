//go:build unix

package mariadbtest

import (
	"testing"

	"github.com/fencedlock/fencedlock/internal/daemon"
)

// shared is for tests that are content with a database of their own.
var shared daemon.Shared[*Server]

// Database returns the data source name of an empty database, for this test alone, on the server that all tests of this
// process use. It is for tests that neither stop nor configure it. The package's TestMain must run [Main].
func Database(t testing.TB) string {
	t.Helper()
	return shared.Get(t, func() (*Server, error) { return start(false) }).Database(t)
}

// Main wraps a testing.M, or what wraps one already, so that the shared server is stopped after the tests:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(mariadbtest.Main(m)) }
func Main(m daemon.Runner) daemon.Runner { return shared.Main(m) }
