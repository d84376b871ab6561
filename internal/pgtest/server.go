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
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencedlock/fencedlock/internal/daemon"
)

// queryLimit is enough for a loaded machine.
const queryLimit = 60 * time.Second

// Server is one PostgreSQL with a folder of its own. Its methods are for one goroutine at a time, but for Database.
type Server struct {
	*daemon.Daemon
	bin   string
	names atomic.Int64
}

// Start runs a server for one test and stops it at the test's end. fsync on makes commits as slow as in real life, for
// benchmarks; off is faster, and still survives Kill, since the operating system keeps what was written. Further settings
// are as in "wal_level=logical".
func Start(t testing.TB, fsync bool, settings ...string) *Server {
	t.Helper()
	return daemon.ForTest(t, func() (*Server, error) { return start(fsync, settings...) })
}

func start(fsync bool, settings ...string) (*Server, error) {
	bin, err := findBinaries()
	if err != nil {
		return nil, err
	}
	sync := map[bool]string{true: "on", false: "off"}[fsync]
	d, err := daemon.New(daemon.Config{
		Name:  "pgtest",
		Users: []string{"postgres"},
		Program: func(dir string, port int) []string {
			args := []string{filepath.Join(bin, "postgres"), "-D", filepath.Join(dir, "data"), "-c", "listen_addresses=127.0.0.1",
				"-c", "port=" + strconv.Itoa(port), "-c", "unix_socket_directories=", "-c", "fsync=" + sync, "-c", "max_connections=200"}
			for _, s := range settings {
				args = append(args, "-c", s)
			}
			return args
		},
		Ping:    func(port int) error { return ping(dsn(port, "postgres")) },
		PIDFile: "data/postmaster.pid",
		Quit:    syscall.SIGQUIT,
	})
	if err != nil {
		return nil, err
	}
	initdb := d.Command(filepath.Join(bin, "initdb"), "-D", filepath.Join(d.Dir, "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		d.Close()
		return nil, fmt.Errorf("pgtest: initdb: %w\n%s", err, out)
	}
	if err := d.Up(); err != nil {
		d.Close()
		return nil, err
	}
	return &Server{Daemon: d, bin: bin}, nil
}

// ping tells whether a server answers.
func ping(dsn string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	return c.Close(ctx)
}

func dsn(port int, database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", port, database)
}

// DSN returns the connection string for a database of this server.
func (s *Server) DSN(database string) string { return dsn(s.Port, database) }

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
		if !s.Running() {
			return
		}
		if err := s.exec("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	return s.DSN(name)
}

func (s *Server) exec(stmt string) error {
	ctx, cancel := context.WithTimeout(context.Background(), queryLimit)
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
func (s *Server) Stop() { s.End(syscall.SIGINT) }

// Kill ends the server as a crash does: at once, without writing anything more.
func (s *Server) Kill() { s.End(syscall.SIGKILL) }

// Restart starts a server that was stopped or killed, on the same port and data.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Stop()
	if err := s.Up(); err != nil {
		t.Fatal(err)
	}
}

// ResetWAL stops the server in order, runs pg_resetwal on its data with the arguments, such as "-x", "1000" for the number
// of the next transaction, and starts it again.
func (s *Server) ResetWAL(t testing.TB, args ...string) {
	t.Helper()
	s.Stop()
	cmd := s.Command(filepath.Join(s.bin, "pg_resetwal"), append(args, "-D", filepath.Join(s.Dir, "data"))...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("pgtest: pg_resetwal: %v\n%s", err, out)
	}
	if err := s.Up(); err != nil {
		t.Fatal(err)
	}
}
