package sqlguard_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/sqlguard"
	"github.com/fencedlock/fencedlock/internal/mariadbtest"
)

// A definition commits before it waits for the lock on the table's metadata. If that times out, what fn wrote is stored
// already, and must not be written again: https://mariadb.com/kb/en/sql-statements-that-cause-an-implicit-commit/,
// https://mariadb.com/kb/en/metadata-locking/
func TestDefinitionThatTimesOutIsNotRunAgain(t *testing.T) {
	db := openMariaDB(t)
	g := newGuard(t, db, sqlguard.MySQL, &sqlguard.Options{MaxRetries: 2})
	mustExec(t, db, "CREATE TABLE doc (n int)", "CREATE TABLE busy (n int)", "INSERT INTO busy VALUES (1)")
	begin(t, db, "UPDATE busy SET n = 2") // it keeps the table's metadata locked
	runs := 0
	err := g.Do(t.Context(), "x", 5, func(ctx context.Context, tx *sql.Tx) error {
		runs++
		if err := doExec("INSERT INTO doc VALUES (1)")(ctx, tx); err != nil {
			return err
		}
		return doExec("ALTER TABLE busy NOWAIT ADD COLUMN m int")(ctx, tx)
	})
	if !errors.Is(err, guard.ErrUnknown) || runs != 1 {
		t.Errorf("Do = %v after %d runs; want ErrUnknown after one", err, runs)
	}
	if n := value[int](t, db, "SELECT count(*) FROM doc"); n != 1 {
		t.Errorf("%d rows are stored; want the one that the definition committed", n)
	}
}

// A lock wait timeout of a row leaves the transaction open, and rolling it back is all there is to do before another try.
func TestLockWaitTimeoutInsideFnIsRunAgain(t *testing.T) {
	db := openDB(t, "mysql", mariadbtest.Database(t)+"?innodb_lock_wait_timeout=0")
	g := newGuard(t, db, sqlguard.MySQL, nil)
	mustExec(t, db, "CREATE TABLE doc (n int)", "CREATE TABLE busy (n int)", "INSERT INTO busy VALUES (1)")
	blocker := begin(t, db, "UPDATE busy SET n = 2")
	runs := 0
	err := g.Do(t.Context(), "x", 5, func(ctx context.Context, tx *sql.Tx) error {
		if runs++; runs == 2 {
			if err := blocker.Rollback(); err != nil {
				t.Error(err)
			}
		}
		return errors.Join(doExec("INSERT INTO doc VALUES (1)")(ctx, tx), doExec("UPDATE busy SET n = 3")(ctx, tx))
	})
	if n := value[int](t, db, "SELECT count(*) FROM doc"); err != nil || runs != 2 || n != 1 {
		t.Errorf("Do = %v after %d runs, %d rows; want nil after 2, and 1", err, runs, n)
	}
}
