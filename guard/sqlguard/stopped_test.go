package sqlguard_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/guard/sqlguard"
	"github.com/fencedlock/fencedlock/internal/child"
	"github.com/fencedlock/fencedlock/internal/mariadbtest"
	"github.com/fencedlock/fencedlock/internal/pgtest"
)

// holder is a process that writes with token 5, and does not leave its transaction until it is told to. Its arguments
// are a driver, a data source name and a dialect.
func holder(s *child.Self) error {
	db, err := sql.Open(s.Args[0], s.Args[1])
	if err != nil {
		return err
	}
	defer db.Close()
	var d sqlguard.Dialect
	if _, err := fmt.Sscan(s.Args[2], (*int)(&d)); err != nil {
		return err
	}
	g, err := sqlguard.New(db, d, nil)
	if err != nil {
		return err
	}
	err = g.Do(context.Background(), "x", 5, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO doc VALUES (5)"); err != nil {
			return err
		}
		s.Say("inside")
		s.Command()
		_, err := tx.ExecContext(ctx, "INSERT INTO doc VALUES (50)")
		return err
	})
	s.Say("ended %v", err)
	return nil
}

func startHolder(t *testing.T, driver, dsn string, d sqlguard.Dialect) *child.Process {
	t.Helper()
	p := child.Start(t, "holder", driver, dsn, fmt.Sprint(int(d)))
	p.Expect("inside", 30*time.Second)
	p.Stop()
	return p
}

// A process that is stopped inside its transaction holds the row's lock for as long as it is stopped, unless the server
// ends the transaction.
func TestHolderStoppedInsideDoDoesNotBlockItsSuccessorForLong(t *testing.T) {
	for _, c := range []struct {
		name, driver string
		dialect      sqlguard.Dialect
		dsn          func(testing.TB) string
	}{
		{"Postgres", "pgx", sqlguard.Postgres, pgtest.Schema},
		{"MariaDB", "mysql", sqlguard.MySQL, mariadbtest.Database},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dsn := c.dsn(t)
			db := openDB(t, c.driver, dsn)
			g := newGuard(t, db, c.dialect, nil)
			mustExec(t, db, "CREATE TABLE doc (n int)")
			p := startHolder(t, c.driver, dsn, c.dialect)
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if err := g.Do(ctx, "x", 6, doExec("INSERT INTO doc VALUES (6)")); err != nil {
				t.Fatalf("the next holder, after %v: %v", time.Since(start), err)
			}
			// 5 s is Do's limit; without it, nobody gets through at all.
			if d := time.Since(start); d < time.Second || d > 20*time.Second {
				t.Errorf("the next holder waited %v; want about 5 s", d)
			}
			p.Continue()
			p.Send("go on")
			if got := p.Expect("ended", 30*time.Second); got == "<nil>" {
				t.Error("the stopped holder was told that its write is stored")
			}
			if n := value[int](t, db, "SELECT sum(n) FROM doc"); n != 6 {
				t.Errorf("the document holds %d; want the next holder's 6 alone", n)
			}
		})
	}
}

// SQLite ends no transaction, so what is bounded is the wait.
func TestHolderStoppedInsideSQLiteIsNamed(t *testing.T) {
	for _, mode := range []string{"wal", "delete"} {
		t.Run(mode, func(t *testing.T) {
			dsn := sqliteDSN(t) + "?_txlock=immediate&_pragma=busy_timeout(200)&_pragma=synchronous(off)&_pragma=journal_mode(" + mode + ")"
			db := openDB(t, "sqlite", dsn)
			g := newGuard(t, db, sqlguard.SQLite, &sqlguard.Options{MaxRetries: 2})
			mustExec(t, db, "CREATE TABLE doc (n int)")
			p := startHolder(t, "sqlite", dsn, sqlguard.SQLite)
			start := time.Now()
			err := g.Do(t.Context(), "x", 6, doExec("INSERT INTO doc VALUES (6)"))
			if err == nil || !strings.Contains(err.Error(), "locked") {
				t.Errorf("the next holder: %v; want an error about the lock", err)
			}
			if d := time.Since(start); d > 15*time.Second {
				t.Errorf("it waited %v", d)
			}
			if runtime.GOOS == "linux" {
				file := filepath.Base(value[string](t, db, "SELECT file FROM pragma_database_list"))
				if want := fmt.Sprintf("%s is locked by process %d)", file, p.PID()); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("the error is %v; want %q in it", err, want)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			err = newGuard(t, db, sqlguard.SQLite, &sqlguard.Options{MaxRetries: 1000}).Seal(ctx, "x", 6)
			if err == nil || !strings.Contains(err.Error(), context.DeadlineExceeded.Error()) || runtime.GOOS == "linux" && !strings.Contains(err.Error(), "is locked by process") {
				t.Errorf("with a deadline: %v; want its error and who has the lock", err)
			}

			if mode == "wal" {
				p.Continue()
				p.Send("go on")
				if got := p.Expect("ended", 30*time.Second); got != "<nil>" {
					t.Errorf("the stopped holder: %s; nobody came in between", got)
				}
			} else {
				p.Kill()
			}
			if err := g.Do(t.Context(), "x", 6, doExec("INSERT INTO doc VALUES (6)")); err != nil {
				t.Errorf("once the holder has gone: %v", err)
			}
		})
	}
}
