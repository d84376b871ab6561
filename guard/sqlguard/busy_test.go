package sqlguard_test

import (
	"context"
	"database/sql"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/sqlguard"
)

// A deferred transaction that reads and then writes gets SQLITE_BUSY at once, whatever busy_timeout says, because its
// snapshot is old: https://github.com/Podiom/Podiom/issues/154, https://github.com/mattn/go-sqlite3/issues/274,
// https://github.com/ovumcy/ovumcy-web/pull/155, https://github.com/brandonrc/mobula/issues/42
func TestTwoDeferredSQLiteWritersAreNeverBusy(t *testing.T) {
	const rounds = 400
	db := openDB(t, "sqlite", sqliteDSN(t)+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_pragma=synchronous(off)")
	// One retry, so that conflicts which come from reading first are not healed by running again and again.
	g := newGuard(t, db, sqlguard.SQLite, &sqlguard.Options{MaxRetries: 1})
	mustExec(t, db, "CREATE TABLE counter (n int)", "INSERT INTO counter VALUES (0)")

	if fast := upgradeIsBusy(t, db); !strings.Contains(fast, "SQLITE_BUSY_SNAPSHOT") && !strings.Contains(fast, "database is locked") {
		t.Errorf("reading before writing ended with %q; it should be busy, else this test shows nothing", fast)
	}

	var wg sync.WaitGroup
	var tries [2]int
	for w := range 2 {
		wg.Go(func() {
			for range rounds {
				err := g.Do(t.Context(), "counter", 5, func(ctx context.Context, tx *sql.Tx) error {
					tries[w]++
					var n int
					if err := tx.QueryRowContext(ctx, "SELECT n FROM counter").Scan(&n); err != nil {
						return err
					}
					_, err := tx.ExecContext(ctx, "UPDATE counter SET n = ?", n+1)
					return err
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if n := value[int](t, db, "SELECT n FROM counter"); n != 2*rounds {
		t.Errorf("%d writes were acknowledged, the counter says %d", 2*rounds, n)
	}
	if n := tries[0] + tries[1]; n != 2*rounds {
		t.Errorf("fn ran %d times for %d writes: busy was met after Check", n, 2*rounds)
	}
}

// upgradeIsBusy reads in one transaction, lets another one write, and writes in the first.
func upgradeIsBusy(t *testing.T, db *sql.DB) string {
	t.Helper()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	var n int
	if err := tx.QueryRow("SELECT n FROM counter").Scan(&n); err != nil {
		t.Fatal(err)
	}
	mustExec(t, db, "UPDATE counter SET n = n + 1", "UPDATE counter SET n = 0")
	if _, err := tx.Exec("UPDATE counter SET n = n"); err != nil {
		return err.Error()
	}
	return ""
}

// Without a busy timeout SQLite does not wait at all: Do has to.
func TestDoWaitsForSQLiteWithoutBusyTimeout(t *testing.T) {
	db := openDB(t, "sqlite", sqliteDSN(t))
	g := newGuard(t, db, sqlguard.SQLite, nil)
	inside, leave := make(chan struct{}), make(chan struct{})
	first := make(chan error, 1)
	go func() {
		first <- g.Do(context.Background(), "x", 5, func(context.Context, *sql.Tx) error {
			close(inside)
			<-leave
			return nil
		})
	}()
	<-inside
	time.AfterFunc(100*time.Millisecond, func() { close(leave) })
	if err := g.Do(t.Context(), "x", 6, func(context.Context, *sql.Tx) error { return nil }); err != nil {
		t.Errorf("the next holder: %v", err)
	}
	if err := <-first; err != nil {
		t.Errorf("the first holder: %v", err)
	}

	// And when the other one never ends, the wait does: by the number of tries, or by the context.
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if err := g.Check(t.Context(), tx, "x", 7); err != nil {
		t.Fatal(err)
	}
	few := newGuard(t, db, sqlguard.SQLite, &sqlguard.Options{MaxRetries: 2})
	err = few.Seal(t.Context(), "x", guard.Token(8))
	if err == nil || !strings.Contains(err.Error(), "gave up after 2 retries") || !strings.Contains(err.Error(), "locked") {
		t.Errorf("against a writer that stays: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if err := newGuard(t, db, sqlguard.SQLite, &sqlguard.Options{MaxRetries: 1 << 30}).Seal(ctx, "x", 8); err == nil || ctx.Err() == nil {
		t.Errorf("against a writer that stays, with a deadline: %v", err)
	}
}
