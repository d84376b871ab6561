//go:build unix

// Package mariadbtest runs a private MariaDB for tests, from the programs installed on the machine, as pgtest does with
// PostgreSQL: on a free port of 127.0.0.1, with its data in a temporary folder, gone with the test process.
//
// Without MariaDB a test that needs it is skipped; with FENCEDLOCK_REQUIRE_SERVERS=1 in the environment it fails.
package mariadbtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"

	"github.com/fencedlock/fencedlock/internal/daemon"
)

// queryLimit is enough for a loaded machine.
const queryLimit = 60 * time.Second

// Server is one MariaDB with a folder of its own. Its methods are for one goroutine at a time, but for Database.
type Server struct {
	*daemon.Daemon
	names atomic.Int64
}

// Start runs a server for one test and stops it at the test's end. sync on makes commits as slow as in real life, for
// benchmarks; off is faster, and still survives Kill, since the operating system keeps what was written.
func Start(t testing.TB, sync bool) *Server {
	t.Helper()
	return daemon.ForTest(t, func() (*Server, error) { return start(sync) })
}

func start(sync bool) (*Server, error) {
	server, install, err := findPrograms()
	if err != nil {
		return nil, err
	}
	// 2 writes at each commit, and syncs once a second; 0 would lose commits in a crash of the process, too.
	flush := map[bool]string{true: "1", false: "2"}[sync]
	d, err := daemon.New(daemon.Config{
		Name:  "mariadbtest",
		Users: []string{"mysql"},
		Program: func(dir string, port int) []string {
			return []string{server, "--no-defaults", "--datadir=" + filepath.Join(dir, "data"), "--pid-file=" + filepath.Join(dir, "pid"),
				"--bind-address=127.0.0.1", "--port=" + strconv.Itoa(port), "--socket=" + filepath.Join(dir, "socket"), "--skip-name-resolve",
				"--innodb-flush-log-at-trx-commit=" + flush, "--max-connections=200", "--innodb-fast-shutdown=2"}
		},
		Ping:    func(port int) error { return run(port, "DO 0") },
		PIDFile: "pid",
		Quit:    syscall.SIGKILL,
	})
	if err != nil {
		return nil, err
	}
	setup := d.Command(install, "--no-defaults", "--datadir="+filepath.Join(d.Dir, "data"), "--auth-root-authentication-method=normal",
		"--skip-test-db", "--skip-name-resolve", "--innodb-log-file-size=8M")
	if out, err := setup.CombinedOutput(); err != nil {
		d.Close()
		return nil, fmt.Errorf("mariadbtest: %s: %w\n%s", install, err, out)
	}
	if err := d.Up(); err != nil {
		d.Close()
		return nil, err
	}
	return &Server{Daemon: d}, nil
}

func run(port int, stmt string) error {
	ctx, cancel := context.WithTimeout(context.Background(), queryLimit)
	defer cancel()
	db, err := sql.Open("mysql", dsn(port, ""))
	if err != nil {
		return fmt.Errorf("mariadbtest: %w", err)
	}
	_, err = db.ExecContext(ctx, stmt)
	if err = errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("mariadbtest: %s: %w", stmt, err)
	}
	return nil
}

func dsn(port int, database string) string {
	return fmt.Sprintf("root@tcp(127.0.0.1:%d)/%s", port, database)
}

// DSN returns the data source name for a database of this server.
func (s *Server) DSN(database string) string { return dsn(s.Port, database) }

// Database creates an empty database for one test and returns its data source name. It is dropped at the test's end.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	name := "t" + strconv.FormatInt(s.names.Add(1), 10)
	if err := run(s.Port, "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !s.Running() {
			return
		}
		if err := run(s.Port, "DROP DATABASE "+name); err != nil {
			t.Error(err)
		}
	})
	return s.DSN(name)
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
