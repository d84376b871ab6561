//go:build unix

// Package pgtest runs a private PostgreSQL for tests, from the binaries installed on the machine. It listens on a free
// port of 127.0.0.1, keeps its data in a temporary folder, and goes away with the test process, also when that is
// killed.
//
// Without PostgreSQL a test that needs it is skipped; with FENCEDLOCK_REQUIRE_SERVERS=1 in the environment it fails.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// startLimit is enough for a loaded machine, and for crash recovery.
const startLimit = 60 * time.Second

// Server is one PostgreSQL with a folder of its own. Its methods are for one goroutine at a time, but for Database.
type Server struct {
	bin    string
	dir    string
	port   int
	fsync  bool
	cred   *syscall.Credential // nil: the user of the test
	reaper *exec.Cmd
	leash  io.Closer // closed by us or by our death: the reaper cleans up
	cmd    *exec.Cmd
	exited chan struct{}
	was    bool // it has been up, so its port is known to others
	names  atomic.Int64
}

// Start runs a server for one test and stops it at the test's end. fsync on makes commits as slow as in real life, for
// benchmarks; off is faster, and still survives Kill, since the operating system keeps what was written.
func Start(t testing.TB, fsync bool) *Server {
	t.Helper()
	s, err := start(fsync)
	if err != nil {
		unavailable(t, err)
	}
	t.Cleanup(s.Close)
	return s
}

// unavailable skips the test when a server is not installed and nobody insists, and fails it otherwise.
func unavailable(t testing.TB, err error) {
	t.Helper()
	if (errors.Is(err, errNotInstalled) || errors.Is(err, errNoBouncer)) && os.Getenv("FENCEDLOCK_REQUIRE_SERVERS") != "1" {
		t.Skip(err)
	}
	t.Fatal(err)
}

func start(fsync bool) (*Server, error) {
	bin, err := findBinaries()
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, fsync: fsync}
	if s.cred, err = unprivileged(); err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp("", "fencedlock-pg-"); err != nil {
		return nil, fmt.Errorf("pgtest: %w", err)
	}
	if s.cred != nil {
		if err := os.Chown(s.dir, int(s.cred.Uid), int(s.cred.Gid)); err != nil {
			return nil, errors.Join(fmt.Errorf("pgtest: %w", err), os.RemoveAll(s.dir))
		}
	}
	if err := s.startReaper(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.dir))
	}
	initdb := s.command("initdb", "-D", filepath.Join(s.dir, "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		s.Close()
		return nil, fmt.Errorf("pgtest: initdb: %w\n%s", err, out)
	}
	if err := s.up(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// startReaper starts the process that removes the folder when the test process has gone, however it went: it waits
// for the end of a pipe that only we hold. It runs as the server's user, so that it may.
func (s *Server) startReaper() error {
	const script = `read -r _
pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null) && kill -QUIT "$pid" 2>/dev/null
n=0
while [ -n "$pid" ] && [ $n -lt 100 ] && kill -0 "$pid" 2>/dev/null; do sleep 0.05; n=$((n+1)); done
rm -rf "$1"`
	c := exec.Command("/bin/sh", "-c", script, "sh", s.dir)
	c.Dir = "/"
	// A group of its own: an interrupt from the keyboard must not stop it before it has cleaned up.
	c.SysProcAttr = &syscall.SysProcAttr{Credential: s.cred, Setpgid: true}
	leash, err := c.StdinPipe()
	if err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	if err := c.Start(); err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	s.reaper, s.leash = c, leash
	return nil
}

// command runs as the server's user, and sees none of the PG variables of the caller's environment.
func (s *Server) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(s.bin, name), args...)
	c.Dir = s.dir
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "HOME=" + s.dir, "TMPDIR=" + s.dir}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: s.cred, Setpgid: true}
	return c
}

// up starts the server and waits until it answers. The port may be taken by somebody else between our look and its
// start, and after Kill the children of the old one need a moment to go: so it tries again.
func (s *Server) up() error {
	deadline := time.Now().Add(startLimit)
	for try := 1; ; try++ {
		err := s.tryUp(deadline)
		if err == nil || time.Now().After(deadline) || !s.was && try == 3 {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (s *Server) tryUp(deadline time.Time) error {
	if s.port == 0 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return fmt.Errorf("pgtest: %w", err)
		}
		s.port = l.Addr().(*net.TCPAddr).Port
		if err := l.Close(); err != nil {
			return fmt.Errorf("pgtest: %w", err)
		}
	}
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	defer log.Close()
	fsync := "off"
	if s.fsync {
		fsync = "on"
	}
	c := s.command("postgres", "-D", filepath.Join(s.dir, "data"), "-c", "listen_addresses=127.0.0.1",
		"-c", "port="+strconv.Itoa(s.port), "-c", "unix_socket_directories=", "-c", "fsync="+fsync, "-c", "max_connections=200")
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	exited := make(chan struct{})
	go func() {
		_ = c.Wait() // how it ended is in the log
		close(exited)
	}()
	s.cmd, s.exited = c, exited
	for {
		err := s.ping()
		if err == nil {
			s.was = true
			return nil
		}
		select {
		case <-exited:
			s.cmd = nil
			if !s.was {
				s.port = 0
			}
			text, _ := os.ReadFile(log.Name())
			return fmt.Errorf("pgtest: postgres ended: %w\n%s", err, text)
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("pgtest: postgres does not answer: %w", err)
		}
	}
}

func (s *Server) ping() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, s.DSN("postgres"))
	if err != nil {
		return err
	}
	return c.Close(ctx)
}

// DSN returns the connection string for a database of this server.
func (s *Server) DSN(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", s.port, database)
}

// Database creates an empty database for one test and returns its connection string. It is dropped at the test's end,
// whoever is still connected.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	name := "t" + strconv.FormatInt(s.names.Add(1), 10)
	// Copying files instead of logging each block is several times faster for a database that is almost empty.
	if err := s.exec("CREATE DATABASE " + name + " STRATEGY file_copy"); err != nil {
		if err = s.exec("CREATE DATABASE " + name); err != nil { // before PostgreSQL 15
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if s.cmd == nil {
			return
		}
		if err := s.exec("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	return s.DSN(name)
}

func (s *Server) exec(stmt string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	c, err := pgx.Connect(ctx, s.DSN("postgres"))
	if err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	_, err = c.Exec(ctx, stmt)
	if err = errors.Join(err, c.Close(ctx)); err != nil {
		return fmt.Errorf("pgtest: %s: %w", stmt, err)
	}
	return nil
}

// Stop ends the server in order; all connections are cut.
func (s *Server) Stop() { s.end(syscall.SIGINT) }

// Kill ends the server as a crash does: at once, without writing anything more.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

func (s *Server) end(sig os.Signal) {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(sig) // fails only when it has ended already
	select {
	case <-s.exited:
	case <-time.After(startLimit):
		_ = s.cmd.Process.Kill()
		<-s.exited
	}
	s.cmd = nil
	// After a kill this holds a number that may belong to somebody else by the time the reaper reads it.
	_ = os.Remove(filepath.Join(s.dir, "data", "postmaster.pid"))
}

// Restart starts a server that was stopped or killed, on the same port and data.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Stop()
	if err := s.up(); err != nil {
		t.Fatal(err)
	}
}

// Close stops the server and removes its folder.
func (s *Server) Close() {
	s.end(syscall.SIGQUIT) // its data is not needed any more
	_ = s.leash.Close()
	_ = s.reaper.Wait()
	_ = os.RemoveAll(s.dir) // whatever the reaper could not remove
}
