//go:build unix

package integration

import (
	"bufio"
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/internal/pgtest"
)

// earlier is the oldest commit whose programs must be able to share locks and marks with those of this tree.
const earlier = "7d89fab66fe657f8851b62f1bf67febaef2a44fa"

// While a service is rolled out, two releases of the library contend for one lock and write under one table of marks. Neither
// may come into the other's hold, and each must refuse what is below the other's mark.
func TestTwoReleasesShareALockAndAMark(t *testing.T) {
	t.Parallel()
	old, now := buildContender(t, checkout(t, earlier)), buildContender(t, repository(t))
	for _, c := range []struct {
		name, driver string
		dsn          func(t *testing.T) string
		migrates     string // the program that creates the tables
	}{
		{"SQLite", "sqlite", sqliteFile, now},
		{"SQLite with the earlier tables", "sqlite", sqliteFile, old},
		// The earlier release's table lacks a column that this one writes, and a write there fails.
		{"PostgreSQL", "pgx", func(t *testing.T) string { return pgtest.Start(t, false).Database(t) }, now},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dsn := c.dsn(t)
			db, err := sql.Open(c.driver, dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			for _, stmt := range []string{"CREATE TABLE counter (n integer)", "INSERT INTO counter VALUES (0)",
				"CREATE TABLE history (id " + map[string]string{"sqlite": "integer PRIMARY KEY", "pgx": "serial"}[c.driver] + ", name text, token bigint)"} {
				if _, err := db.ExecContext(t.Context(), stmt); err != nil {
					t.Fatal(err)
				}
			}
			if out, err := exec.CommandContext(t.Context(), c.migrates, c.driver, dsn, "migrate").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			const rounds = 150
			cluster := etcdtest.Start(t, nil)
			together(t, rounds, func(program string) *exec.Cmd {
				name := map[string]string{old: "old", now: "now"}[program]
				return exec.CommandContext(t.Context(), program, c.driver, dsn, "contend", cluster.Endpoints()[0], name, strconv.Itoa(rounds))
			}, old, now)
			checkHistory(t, db, rounds)
			etcdtest.AssertEmpty(t, cluster.Client(t), "/fencedlock/", 0)
		})
	}
}

func sqliteFile(t *testing.T) string {
	return filepath.Join(t.TempDir(), "db") + "?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=synchronous(off)"
}

// together starts the programs, lets them go when all are ready, and waits for their end.
func together(t *testing.T, rounds int, command func(program string) *exec.Cmd, programs ...string) {
	t.Helper()
	var start []io.WriteCloser
	var wait []func() error
	for _, p := range programs {
		cmd := command(p)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		stdin, errIn := cmd.StdinPipe()
		stdout, errOut := cmd.StdoutPipe()
		if err := errors.Join(errIn, errOut); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		wait = append(wait, func() error {
			if err := cmd.Wait(); err != nil {
				return fmt.Errorf("%w: %s", err, stderr.String())
			}
			return nil
		})
		if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
			t.Fatalf("%s says %q, %v: %v", p, line, err, wait[len(wait)-1]())
		}
		start = append(start, stdin)
	}
	for _, in := range start {
		if _, err := io.WriteString(in, "go\n"); err != nil {
			t.Error(err)
		}
	}
	for i, w := range wait {
		if err := w(); err != nil {
			t.Errorf("%s: %v", programs[i], err)
		}
	}
}

// checkHistory reads what two holders with that many rounds have written.
func checkHistory(t *testing.T, db *sql.DB, rounds int) {
	t.Helper()
	var n int
	if err := db.QueryRowContext(t.Context(), "SELECT n FROM counter").Scan(&n); err != nil || n != 2*rounds {
		t.Errorf("the counter is %d, %v; want %d", n, err, 2*rounds)
	}
	rows, err := db.QueryContext(t.Context(), "SELECT name, token FROM history ORDER BY id")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	writes, turns, before, last := 0, 0, "", int64(0)
	for rows.Next() {
		var name string
		var token int64
		if err := rows.Scan(&name, &token); err != nil {
			t.Fatal(err)
		}
		if token <= last {
			t.Errorf("token %d (%s) after %d (%s)", token, name, last, before)
		}
		if writes++; name != before {
			turns++
		}
		before, last = name, token
	}
	if err := rows.Err(); err != nil || writes != 2*rounds {
		t.Errorf("%d writes, %v; want %d", writes, err, 2*rounds)
	}
	if turns < rounds/4 {
		t.Errorf("the releases took turns %d times in %d writes, so they hardly met", turns, writes)
	}
}
