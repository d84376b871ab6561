//go:build unix

// Package gcstest runs a private fake-gcs-server for tests: on a free port of 127.0.0.1, gone with the test process. It knows
// nothing of Google's SDK, so that whoever does not need that does not get it.
//
// Without fake-gcs-server a test that needs it is skipped; with FENCEDLOCK_REQUIRE_SERVERS=1 in the environment it fails.
package gcstest

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/fencedlock/fencedlock/internal/daemon"
)

const errNotInstalled = daemon.NotInstalledError("gcstest: fake-gcs-server is not installed (neither .tools/bin/fake-gcs-server nor on PATH); " +
	"in the repository's root: make setup")

// Backend is where the server keeps its objects.
type Backend string

const (
	// Memory takes every name, and forgets all when the server ends.
	Memory Backend = "memory"
	// Files survive a restart. A name is a path, so that there cannot be both a and a/b.
	Files Backend = "filesystem"
)

// Server is one fake-gcs-server with a folder of its own. Its methods are for one goroutine at a time, but for Address.
type Server struct{ *daemon.Daemon }

// Start runs a server for one test and stops it at the test's end.
func Start(t testing.TB, backend Backend) *Server {
	t.Helper()
	return daemon.ForTest(t, func() (*Server, error) { return start(backend) })
}

func start(backend Backend) (*Server, error) {
	program := daemon.FindTool("bin/fake-gcs-server")
	if program == "" {
		return nil, errNotInstalled
	}
	d, err := daemon.Run(daemon.Config{
		Name:   "gcstest",
		AsRoot: true, // it does not mind, and the program lies in the repository
		Program: func(dir string, port int) []string {
			p := strconv.Itoa(port)
			return []string{program, "-scheme", "http", "-host", "127.0.0.1", "-port", p, "-public-host", "127.0.0.1:" + p,
				"-backend", string(backend), "-filesystem-root", dir + "/data", "-log-level", "error"}
		},
		Ping: ping,
		Quit: syscall.SIGKILL,
	})
	if err != nil {
		return nil, err
	}
	return &Server{d}, nil
}

func ping(port int) error {
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := c.Get("http://127.0.0.1:" + strconv.Itoa(port) + "/_internal/healthcheck")
	if err != nil {
		return err
	}
	if r.StatusCode != http.StatusOK {
		err = errors.New(r.Status)
	}
	return errors.Join(err, r.Body.Close())
}

// Restart ends the server and starts it again on the same port.
//
// No upload should be under way: the server writes an object and then its generation, waits for neither when it is told to
// end, and without a generation it takes the object for one that is not there. Cloud Storage does both in one step.
func (s *Server) Restart() error {
	s.End(syscall.SIGTERM)
	return s.Up()
}

// Endpoint is what a client takes for Cloud Storage: a server, or a proxy, at host:port.
func Endpoint(address string) string { return "http://" + address + "/storage/v1/" }

// Upload tells whether a request writes an object.
func Upload(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/upload/")
}

// shared keeps its objects in memory.
var shared daemon.Shared[*Server]

// Shared returns the server that all tests of this process use. It is for tests that do not stop it. The package's
// TestMain must run [Main].
func Shared(t testing.TB) *Server {
	t.Helper()
	return shared.Get(t, func() (*Server, error) { return start(Memory) })
}

// Main wraps a testing.M so that the shared server is stopped after the tests:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(gcstest.Main(m)) }
func Main(m daemon.Runner) daemon.Runner { return shared.Main(m) }
