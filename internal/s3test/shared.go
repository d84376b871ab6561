//go:build unix

package s3test

import (
	"testing"

	"github.com/fencedlock/fencedlock/internal/daemon"
)

// shared is for tests that are content with a bucket of their own.
var shared daemon.Shared[*Server]

// Shared returns the server that all tests of this process use. It is for tests that do not stop it. The package's
// TestMain must run [Main].
func Shared(t testing.TB) *Server {
	t.Helper()
	return shared.Get(t, start)
}

// Main wraps a testing.M, or what wraps one already, so that the shared server is stopped after the tests:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(s3test.Main(m)) }
func Main(m daemon.Runner) daemon.Runner { return shared.Main(m) }
