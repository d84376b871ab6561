//go:build unix

// Package aztest runs a private Azurite for tests: on a free port of 127.0.0.1, gone with the test process. It knows nothing
// of Azure's SDK, so that whoever does not need that does not get it.
//
// Without Azurite a test that needs it is skipped; with FENCEDLOCK_REQUIRE_SERVERS=1 in the environment it fails.
package aztest

import (
	"net/http"
	"strconv"
	"syscall"
	"testing"

	"github.com/fencedlock/fencedlock/internal/daemon"
)

const errNotInstalled = daemon.NotInstalledError("aztest: Azurite is not installed (neither .tools/node_modules/.bin/azurite-blob nor on PATH); " +
	"in the repository's root: make setup")

// The account that every Azurite has,
// https://learn.microsoft.com/azure/storage/common/storage-connect-azurite#well-known-storage-account-and-key.
const (
	Account = "devstoreaccount1"
	Key     = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// Backend is where the server keeps its blobs.
type Backend string

const (
	// Memory is the faster one, and forgets all when the server ends.
	Memory Backend = "--inMemoryPersistence"
	// Files survive a restart.
	Files Backend = "--location=data"
)

// Server is one Azurite with a folder of its own. Its methods are for one goroutine at a time, but for Address.
type Server struct{ *daemon.Daemon }

// Start runs a server for one test and stops it at the test's end.
func Start(t testing.TB, backend Backend) *Server {
	t.Helper()
	return daemon.ForTest(t, func() (*Server, error) { return start(backend) })
}

func start(backend Backend) (*Server, error) {
	program := daemon.FindTool("node_modules/.bin/azurite-blob")
	if program == "" {
		return nil, errNotInstalled
	}
	d, err := daemon.Run(daemon.Config{
		Name:   "aztest",
		AsRoot: true, // it does not mind, and the program lies in the repository
		Program: func(_ string, port int) []string {
			return []string{program, "--blobHost", "127.0.0.1", "--blobPort", strconv.Itoa(port),
				string(backend), "--silent", "--skipApiVersionCheck", "--disableTelemetry"}
		},
		Ping: ping,
		Quit: syscall.SIGKILL,
	})
	if err != nil {
		return nil, err
	}
	return &Server{d}, nil
}

// ping takes any answer, as a request without a signature is refused.
func ping(port int) error {
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := c.Get("http://127.0.0.1:" + strconv.Itoa(port) + "/" + Account + "?comp=list")
	if err != nil {
		return err
	}
	return r.Body.Close()
}

// Restart ends the server and starts it again on the same port.
//
// It is ended in order: killed it would forget what it acknowledged in its last seconds, unlike Azure. For the same reason
// no request should be under way, which it would acknowledge after it has put its memory on disk.
func (s *Server) Restart() error {
	s.End(syscall.SIGTERM)
	return s.Up()
}

// URL is that of a container, on a server or a proxy at host:port.
func URL(address, container string) string {
	return "http://" + address + "/" + Account + "/" + container
}

// Upload tells whether a request writes a blob.
func Upload(r *http.Request) bool { return r.Method == http.MethodPut && !r.URL.Query().Has("restype") }

// shared keeps its blobs in memory.
var shared daemon.Shared[*Server]

// Shared returns the server that all tests of this process use. It is for tests that do not stop it. The package's
// TestMain must run [Main].
func Shared(t testing.TB) *Server {
	t.Helper()
	return shared.Get(t, func() (*Server, error) { return start(Memory) })
}

// Main wraps a testing.M so that the shared server is stopped after the tests:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(aztest.Main(m)) }
func Main(m daemon.Runner) daemon.Runner { return shared.Main(m) }
