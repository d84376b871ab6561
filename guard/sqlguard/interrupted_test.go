package sqlguard_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/sqlguard"
)

// SQLite ends the whole transaction when a statement that writes is interrupted, and what comes after is stored at once:
// https://www.sqlite.org/lang_transaction.html, "Response To Errors Within A Transaction". Do cannot prevent that, but it
// must not say that nothing was stored.
func TestDoKnowsThatSQLiteEndedItsTransaction(t *testing.T) {
	db := openSQLite(t)
	g := newGuard(t, db, sqlguard.SQLite, nil)
	mustExec(t, db, "CREATE TABLE data (v text)", "INSERT INTO data VALUES ('start')", "CREATE TABLE big (n int)")
	const slow = `INSERT INTO big WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM c WHERE n < 1000000000) SELECT n FROM c`
	err := g.Do(t.Context(), "r", 5, func(ctx context.Context, tx *sql.Tx) error {
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		_, failed := tx.ExecContext(short, slow)
		if failed == nil {
			t.Error("the statement was not interrupted")
		}
		if _, err := tx.ExecContext(ctx, "UPDATE data SET v = 'unguarded'"); err != nil {
			t.Error(err)
		}
		return failed
	})
	if v := value[string](t, db, "SELECT v FROM data"); v != "unguarded" {
		t.Fatalf("the data is %q; SQLite has kept the transaction, so there is nothing to know", v)
	}
	if !errors.Is(err, guard.ErrUnknown) {
		t.Errorf("Do = %v, want ErrUnknown", err)
	}
}

func TestTemporaryTablesHoldNoMarks(t *testing.T) {
	db := openSQLite(t)
	for _, table := range []string{"temp.marks", "TEMP.marks", "pg_temp.marks", "pg_temp_3.marks"} {
		if _, err := sqlguard.New(db, sqlguard.SQLite, &sqlguard.Options{Table: table}); err == nil {
			t.Errorf("New took the table %q, which each connection has for itself", table)
		}
	}
}
