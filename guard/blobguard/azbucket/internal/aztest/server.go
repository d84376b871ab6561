//go:build unix

// Package aztest runs a private Azurite for tests: on a free port of 127.0.0.1, gone with the test process.
//
// Without Azurite a test that needs it is skipped; with FENCEDLOCK_REQUIRE_SERVERS=1 in the environment it fails.
package aztest

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/fencedlock/fencedlock/internal/daemon"
)

const errNotInstalled = daemon.NotInstalledError("aztest: Azurite is not installed (neither .tools/node_modules/.bin/azurite-blob nor on PATH); " +
	"in the repository's root: make setup")

// The account that every Azurite has,
// https://learn.microsoft.com/azure/storage/common/storage-connect-azurite#well-known-storage-account-and-key.
const (
	account = "devstoreaccount1"
	key     = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// Backend is where the server keeps its blobs.
type Backend string

const (
	// Memory is the faster one, and forgets all when the server ends.
	Memory Backend = "--inMemoryPersistence"
	// Files survive a restart.
	Files Backend = "--location=data"
)

// Server is one Azurite with a folder of its own.
type Server struct {
	*daemon.Daemon
	names atomic.Int64
}

// Start runs a server for one test and stops it at the test's end.
func Start(t testing.TB, backend Backend) *Server {
	t.Helper()
	s, err := start(backend)
	if err != nil {
		daemon.Unavailable(t, err)
	}
	t.Cleanup(s.Close)
	return s
}

func start(backend Backend) (*Server, error) {
	program := daemon.FindTool("node_modules/.bin/azurite-blob")
	if program == "" {
		return nil, errNotInstalled
	}
	d, err := daemon.New(daemon.Config{
		Name:   "aztest",
		AsRoot: true, // it does not mind, and the program lies in the repository
		Program: func(dir string, port int) []string {
			// The shell is there to write the process id that the server keeps when it takes the shell's place.
			return []string{"/bin/sh", "-c", `echo $$ >pid && exec "$@"`, "sh", program, "--blobHost", "127.0.0.1", "--blobPort", strconv.Itoa(port),
				string(backend), "--silent", "--skipApiVersionCheck", "--disableTelemetry"}
		},
		Ping:    ping,
		PIDFile: "pid",
		Quit:    syscall.SIGKILL,
	})
	if err != nil {
		return nil, err
	}
	if err := d.Up(); err != nil {
		d.Close()
		return nil, err
	}
	return &Server{Daemon: d}, nil
}

// ping takes any answer, as a request without a signature is refused.
func ping(port int) error {
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := c.Get("http://127.0.0.1:" + strconv.Itoa(port) + "/" + account + "?comp=list")
	if err != nil {
		return err
	}
	return r.Body.Close()
}

// Restart ends the server and starts it again on the same port.
func (s *Server) Restart() error {
	s.End(syscall.SIGTERM) // killed it would forget what it acknowledged in its last seconds, unlike Azure
	return s.Up()
}

// Address is the server's host and port.
func (s *Server) Address() string { return "127.0.0.1:" + strconv.Itoa(s.Port) }

// Container creates an empty container for one test and returns its name. It goes away with the server.
func (s *Server) Container(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("container-%d", s.names.Add(1))
	if _, err := NewClient(t, s.Address(), name, nil).Create(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return name
}

// NewClient returns a client of a container, for a server or a proxy at host:port. Its connections are closed at the test's
// end.
func NewClient(t testing.TB, address, name string, o *container.ClientOptions) *container.Client {
	t.Helper()
	var options container.ClientOptions
	if o != nil {
		options = *o
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	options.Transport = &http.Client{Transport: transport}
	credential, err := container.NewSharedKeyCredential(account, key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := container.NewClientWithSharedKeyCredential("http://"+address+"/"+account+"/"+name, credential, &options)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// shared is the one server of this test process, in memory.
var shared struct {
	once sync.Once
	s    *Server
	err  error
}

// Shared returns the server that all tests of this process use. It is for tests that do not stop it. The package's
// TestMain must run [Main].
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.once.Do(func() { shared.s, shared.err = start(Memory) })
	if shared.err != nil {
		daemon.Unavailable(t, shared.err)
	}
	return shared.s
}

type runner interface{ Run() int }

type main struct{ m runner }

// Main wraps a testing.M so that the shared server is stopped after the tests:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(aztest.Main(m)) }
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
