//go:build unix

// Package redistest runs private Redis servers for tests, from the program installed on the machine: single ones, with
// replicas, under Sentinel, and clusters; on free ports of 127.0.0.1, with their data in temporary folders, gone with the
// test process. Valkey is taken where there is no Redis.
//
// Without either a test that needs it is skipped; with FENCEDLOCK_REQUIRE_SERVERS=1 in the environment it fails.
package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/fencedlock/internal/daemon"
)

const errNotInstalled = daemon.NotInstalledError("redistest: Redis is not installed (no redis-server or valkey-server on PATH); " +
	"on Debian and Ubuntu: apt-get install redis-server; on Fedora: dnf install redis, or valkey; on macOS: brew install redis")

// findServer is a variable so that a test can hide the program.
var findServer = func() (string, error) {
	for _, name := range []string{"redis-server", "valkey-server"} {
		if p, err := exec.LookPath(name); err == nil {
			return p, nil
		}
	}
	return "", errNotInstalled
}

// Installed returns nil if there is a server to start, for examples, which cannot be skipped.
func Installed() error {
	_, err := findServer()
	return err
}

// Server is one Redis with a folder of its own. Its methods are for one goroutine at a time.
type Server struct {
	*daemon.Daemon
}

// Start runs a server for one test and stops it at the test's end. It persists nothing, unless the settings, such as
// "--appendonly", "yes", say otherwise.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	return daemon.ForTest(t, func() (*Server, error) { return Open(settings...) })
}

// Open is Start for examples: the caller closes the server.
func Open(settings ...string) (*Server, error) {
	return open("redistest", func(dir string, port int) []string {
		return append([]string{"--port", strconv.Itoa(port), "--save", "", "--repl-diskless-sync-delay", "0"}, settings...)
	})
}

func open(name string, arguments func(dir string, port int) []string) (*Server, error) {
	program, err := findServer()
	if err != nil {
		return nil, err
	}
	d, err := daemon.Run(daemon.Config{
		Name:  name,
		Users: []string{"redis", "valkey"},
		Program: func(dir string, port int) []string {
			return append(append([]string{program}, arguments(dir, port)...),
				"--bind", "127.0.0.1", "--dir", dir, "--pidfile", filepath.Join(dir, "pid"), "--daemonize", "no")
		},
		Ping:    ping,
		PIDFile: "pid",
		Quit:    syscall.SIGKILL,
	})
	if err != nil {
		return nil, err
	}
	return &Server{d}, nil
}

// ping asks without a client, which would try again in its own rhythm.
func ping(port int) error {
	c, err := net.DialTimeout("tcp", address(port), time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	buf := make([]byte, 256)
	n, err := c.Read(buf)
	if err == nil && string(buf[:n]) != "+PONG\r\n" {
		err = fmt.Errorf("answered %q", buf[:n])
	}
	return err
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// Addr is the server's host:port.
func (s *Server) Addr() string { return s.Address() }

// Client returns a client that ends with the test.
func (s *Server) Client(t testing.TB) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: s.Addr()})
	closeWith(t, c)
	return c
}

func closeWith(t testing.TB, c redis.UniversalClient) {
	t.Cleanup(func() {
		if err := c.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
			t.Error(err)
		}
	})
}

// Kill ends the server as a crash does: at once, without writing anything more.
func (s *Server) Kill() { s.End(syscall.SIGKILL) }

// Restart starts a server again that was killed, on the same port and data.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Kill()
	if err := s.Up(); err != nil {
		t.Fatal(err)
	}
}

// StartReplica starts another server that follows this one, and returns when it does.
func (s *Server) StartReplica(t testing.TB, settings ...string) *Server {
	t.Helper()
	r := Start(t, append([]string{"--replicaof", "127.0.0.1 " + strconv.Itoa(s.Port)}, settings...)...)
	c := r.Client(t)
	Eventually(t, "the replica follows", func() bool {
		return infoHas(t.Context(), c, "replication", "master_link_status:up")
	})
	return r
}

// Eventually waits until ok.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("redistest: still not so: %s", what)
		}
	}
}

func infoHas(ctx context.Context, c *redis.Client, section, line string) bool {
	text, err := c.Info(ctx, section).Result()
	return err == nil && hasLine(text, line)
}

// Pause stops the server with all its threads, so that it takes requests and answers none.
func (s *Server) Pause(t testing.TB) {
	t.Helper()
	s.signal(t, syscall.SIGSTOP)
	t.Cleanup(func() { s.signal(t, syscall.SIGCONT) })
}

// Resume lets a paused server go on.
func (s *Server) Resume(t testing.TB) {
	t.Helper()
	s.signal(t, syscall.SIGCONT)
}

func (s *Server) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if !s.Running() {
		return
	}
	text, err := os.ReadFile(filepath.Join(s.Dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
}
