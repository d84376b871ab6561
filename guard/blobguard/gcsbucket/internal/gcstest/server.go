//go:build unix

// Package gcstest runs a private fake-gcs-server for tests: on a free port of 127.0.0.1, gone with the test process.
//
// Without fake-gcs-server a test that needs it is skipped; with FENCEDLOCK_REQUIRE_SERVERS=1 in the environment it fails.
package gcstest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"cloud.google.com/go/storage"
	"google.golang.org/api/option"

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

// Server is one fake-gcs-server with a folder of its own.
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
	program := daemon.FindTool("bin/fake-gcs-server")
	if program == "" {
		return nil, errNotInstalled
	}
	d, err := daemon.New(daemon.Config{
		Name:   "gcstest",
		AsRoot: true, // it does not mind, and the program lies in the repository
		Program: func(dir string, port int) []string {
			p := strconv.Itoa(port)
			// The shell is there to write the process id that the server keeps when it takes the shell's place.
			return []string{"/bin/sh", "-c", `echo $$ >pid && exec "$@"`, "sh", program, "-scheme", "http", "-host", "127.0.0.1",
				"-port", p, "-public-host", "127.0.0.1:" + p, "-backend", string(backend), "-filesystem-root", dir + "/data", "-log-level", "error"}
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
func (s *Server) Restart() error {
	s.End(syscall.SIGTERM) // an upload that it was killed in may be half written, unlike in Cloud Storage
	return s.Up()
}

// Address is the server's host and port.
func (s *Server) Address() string { return "127.0.0.1:" + strconv.Itoa(s.Port) }

// Bucket creates an empty bucket for one test and returns its name. It goes away with the server.
func (s *Server) Bucket(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("bucket-%d", s.names.Add(1))
	if err := NewClient(t, s.Address()).Bucket(name).Create(t.Context(), "project", nil); err != nil {
		t.Fatal(err)
	}
	return name
}

// NewClient returns a client for a server or a proxy at host:port. It is closed at the test's end.
func NewClient(t testing.TB, address string, options ...option.ClientOption) *storage.Client {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	options = append([]option.ClientOption{
		option.WithEndpoint("http://" + address + "/storage/v1/"),
		option.WithHTTPClient(&http.Client{Transport: transport}),
		option.WithoutAuthentication(), // else it looks on the machine and in the network for credentials
	}, options...)
	c, err := storage.NewClient(context.WithoutCancel(t.Context()), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		transport.CloseIdleConnections()
	})
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
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(gcstest.Main(m)) }
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
