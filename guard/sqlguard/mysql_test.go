package sqlguard_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/sqlguard"
	"github.com/fencedlock/fencedlock/internal/mariadbtest"
)

// A write that changes nothing affects no row, or one with the flag for matched rows, and looks like a stale one:
// https://github.com/go-sql-driver/mysql/issues/641, https://github.com/go-gorm/gorm/issues/7384,
// https://github.com/go-gorm/gorm/issues/6756, https://github.com/maxpert/marmot/issues/167
func TestRepeatedWriteOfTheSameIsNotStale(t *testing.T) {
	for _, params := range []string{"", "?clientFoundRows=true", "?clientFoundRows=true&interpolateParams=true", "?interpolateParams=true"} {
		t.Run(params, func(t *testing.T) {
			db := openDB(t, "mysql", mariadbtest.Database(t)+params)
			g := newGuard(t, db, sqlguard.MySQL, nil)
			mustExec(t, db, "CREATE TABLE doc (n int)", "INSERT INTO doc VALUES (0)")
			for range 3 {
				if err := g.Do(t.Context(), "x", 5, doExec("UPDATE doc SET n = 7")); err != nil {
					t.Errorf("the same write again: %v", err)
				}
			}
			if err := g.Do(t.Context(), "x", 4, doExec("UPDATE doc SET n = 7")); !errors.Is(err, guard.ErrStale) {
				t.Errorf("the same write by an earlier holder: %v; want ErrStale", err)
			}
			for i := range 3 {
				err := g.Do(t.Context(), "x", 5, func(ctx context.Context, tx *sql.Tx) error {
					first, err := g.Once(ctx, tx, "x", "a")
					if first != (i == 0) {
						t.Errorf("Once, call %d: first = %v", i, first)
					}
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// After a lock wait timeout the transaction is still open, and a COMMIT would store what went before.
func TestLockWaitTimeoutStoresNoHalfOfATransaction(t *testing.T) {
	db := openDB(t, "mysql", mariadbtest.Database(t)+"?innodb_lock_wait_timeout=1")
	g := newGuard(t, db, sqlguard.MySQL, nil)
	mustExec(t, db, "CREATE TABLE doc (n int)", "CREATE TABLE other (n int)", "INSERT INTO other VALUES (0)")
	blocker := begin(t, db, "UPDATE other SET n = 1")
	if err := g.Check(t.Context(), blocker, "x", 5); err != nil {
		t.Fatal(err)
	}

	tx := begin(t, db, "INSERT INTO doc VALUES (1)")
	if err := g.Check(t.Context(), tx, "x", 6); err == nil || errors.Is(err, guard.ErrStale) || !strings.Contains(err.Error(), "1205") {
		t.Errorf("Check = %v; want the timeout", err)
	}
	if err := tx.Commit(); !errors.Is(err, sql.ErrTxDone) {
		t.Errorf("the transaction goes on: %v", err)
	}

	runs := 0
	err := g.Do(t.Context(), "y", 5, func(ctx context.Context, tx *sql.Tx) error {
		runs++
		if _, err := tx.ExecContext(ctx, "INSERT INTO doc VALUES (1)"); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE other SET n = n + 1")
		if err != nil && runs == 1 {
			if err := blocker.Rollback(); err != nil {
				t.Error(err)
			}
		}
		return err
	})
	if err != nil || runs != 2 {
		t.Errorf("Do = %v after %d runs; want nil after 2", err, runs)
	}
	if n := value[int](t, db, "SELECT count(*) FROM doc"); n != 1 {
		t.Errorf("%d rows are stored; want that of the second run", n)
	}
}

func TestDeadlockOfTwoGuardedTransactionsIsRunAgain(t *testing.T) {
	db := openMariaDB(t)
	g := newGuard(t, db, sqlguard.MySQL, nil)
	for _, r := range []string{"a", "b"} {
		if err := g.Seal(t.Context(), r, 1); err != nil {
			t.Fatal(err)
		}
	}
	var inside, wg sync.WaitGroup
	inside.Add(2)
	var runs [2]int
	for i, order := range [][]string{{"a", "b"}, {"b", "a"}} {
		wg.Go(func() {
			err := g.Do(t.Context(), order[0], 5, func(ctx context.Context, tx *sql.Tx) error {
				if runs[i]++; runs[i] == 1 {
					inside.Done()
					inside.Wait() // both hold their first row
				}
				return g.Check(ctx, tx, order[1], 5)
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if runs[0]+runs[1] < 3 {
		t.Errorf("%v runs: there was no deadlock", runs)
	}
}

// With snapshot isolation MariaDB says 1020 for a row that has changed since the snapshot.
func TestChangedRecordIsRunAgain(t *testing.T) {
	db := openDB(t, "mysql", mariadbtest.Database(t)+"?innodb_snapshot_isolation=1")
	g := newGuard(t, db, sqlguard.MySQL, &sqlguard.Options{Isolation: sql.LevelRepeatableRead})
	mustExec(t, db, "CREATE TABLE doc (n int)", "INSERT INTO doc VALUES (0)")
	var errs []error
	err := g.Do(t.Context(), "x", 5, func(ctx context.Context, tx *sql.Tx) error {
		var n int
		if err := tx.QueryRowContext(ctx, "SELECT n FROM doc").Scan(&n); err != nil { // takes the snapshot
			return err
		}
		if len(errs) == 0 {
			mustExec(t, db, "UPDATE doc SET n = 10") // a program without the guard
		}
		_, err := tx.ExecContext(ctx, "UPDATE doc SET n = ?", n+1)
		errs = append(errs, err)
		return err
	})
	if err != nil || len(errs) != 2 || !strings.Contains(errs[0].Error(), "1020") {
		t.Errorf("Do = %v, statements: %v; want 1020, then nil", err, errs)
	}
	if n := value[int](t, db, "SELECT n FROM doc"); n != 11 {
		t.Errorf("the document holds %d; want 11", n)
	}
}

// A definition ends the transaction before Check as well, whose lock would then last for one statement.
func TestCheckOnMariaDBTellsThatNoTransactionIsOpen(t *testing.T) {
	db := openMariaDB(t)
	g := newGuard(t, db, sqlguard.MySQL, nil)
	tx := begin(t, db)
	if _, err := tx.Exec("CREATE TABLE IF NOT EXISTS another (n int)"); err != nil {
		t.Fatal(err)
	}
	if err := g.Check(t.Context(), tx, "x", 5); err == nil || !strings.Contains(err.Error(), "no transaction is open") {
		t.Errorf("Check = %v, want an error that says that no transaction is open", err)
	}
	if err := tx.Commit(); !errors.Is(err, sql.ErrTxDone) {
		t.Errorf("Commit = %v, want ErrTxDone", err)
	}
}

// See TestLostCommitReplyIsUnknownAndNeverReplayed: the same on MariaDB.
// https://github.com/golang/go/issues/11978, https://github.com/go-sql-driver/mysql/pull/302
func TestLostCommitReplyOfMariaDBIsUnknownAndNeverReplayed(t *testing.T) {
	dsn := mariadbtest.Database(t)
	direct := openDB(t, "mysql", dsn)
	mustExec(t, direct, "CREATE TABLE account (n int)", "INSERT INTO account VALUES (0)")
	proxy, through := mariadbtest.NewProxy(t, dsn)
	lossy := newGuard(t, openDB(t, "mysql", through), sqlguard.MySQL, nil)
	g := newGuard(t, direct, sqlguard.MySQL, nil)
	for i, fault := range []mariadbtest.CommitFault{mariadbtest.LoseReply, mariadbtest.LoseRequest} {
		op := []string{"reply", "request"}[i]
		hit := proxy.Fail(fault)
		start := time.Now()
		err := lossy.Do(t.Context(), "x", 5, credit(lossy, "x", op))
		if !errors.Is(err, guard.ErrUnknown) || errors.Is(err, guard.ErrStale) {
			t.Errorf("%s lost: %v; want ErrUnknown", op, err)
		}
		if d := time.Since(start); d > 10*time.Second {
			t.Errorf("%s lost: Do took %v", op, d)
		}
		<-hit
		// The way out: the same operation once more, which waits for what became of the first.
		if err := g.Do(t.Context(), "x", 5, credit(g, "x", op)); err != nil {
			t.Error(err)
		}
		if n := value[int](t, direct, "SELECT n FROM account"); n != i+1 {
			t.Errorf("%s lost: the account says %d; want %d", op, n, i+1)
		}
	}
}

// A snapshot from before the record does not show it, but the record is there all the same.
func TestRecordBehindTheSnapshotIsSeen(t *testing.T) {
	db := openMariaDB(t)
	g := newGuard(t, db, sqlguard.MySQL, nil)
	mustExec(t, db, "CREATE TABLE account (n int)", "INSERT INTO account VALUES (0)")
	tx := begin(t, db)
	var n int
	if err := tx.QueryRow("SELECT n FROM account").Scan(&n); err != nil { // takes the snapshot
		t.Fatal(err)
	}
	if err := g.Do(t.Context(), "x", 5, credit(g, "x", "a")); err != nil {
		t.Fatal(err)
	}
	if first, err := g.Once(t.Context(), tx, "x", "a"); first || err != nil {
		t.Errorf("Once = %v, %v; want false, nil", first, err)
	}
}
