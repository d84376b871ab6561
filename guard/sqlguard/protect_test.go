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
)

const missing = `has not passed Check for the resource "x"`

// refused runs the statements in one transaction, which has to fail for want of a check.
func refused(t *testing.T, db *sql.DB, stmts ...string) {
	t.Helper()
	err := inTx(t, db, stmts...)
	if err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("%s: %v; want a refusal", strings.Join(stmts, "; "), err)
	}
}

func inTx(t *testing.T, db *sql.DB, stmts ...string) error {
	t.Helper()
	tx := begin(t, db)
	for _, s := range stmts {
		if _, err := tx.Exec(s); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	return tx.Commit()
}

// guarded runs the statements in one transaction that has passed Check for x.
func guarded(t *testing.T, g *sqlguard.Guard, stmts ...string) {
	t.Helper()
	err := g.Do(t.Context(), "x", 5, func(ctx context.Context, tx *sql.Tx) error {
		for _, s := range stmts {
			if _, err := tx.ExecContext(ctx, s); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Errorf("%s: %v", strings.Join(stmts, "; "), err)
	}
}

func protect(t *testing.T, g *sqlguard.Guard, table string) {
	t.Helper()
	if err := g.Protect(t.Context(), table, "x"); err != nil {
		t.Fatal(err)
	}
}

var writes = []string{"INSERT INTO doc VALUES (2, 2)", "UPDATE doc SET n = n", "DELETE FROM doc", "TRUNCATE doc",
	"INSERT INTO doc VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET n = 3", "WITH w AS (DELETE FROM doc RETURNING n) SELECT * FROM w",
	"MERGE INTO doc USING (SELECT 1 AS id) s ON doc.id = s.id WHEN MATCHED THEN UPDATE SET n = 4"}

func openProtected(t *testing.T) (*sql.DB, *sqlguard.Guard) {
	t.Helper()
	db := openPostgres(t)
	g := newGuard(t, db, sqlguard.Postgres, nil)
	mustExec(t, db, "CREATE TABLE doc (id int PRIMARY KEY, n int)", "INSERT INTO doc VALUES (1, 1)")
	protect(t, g, "doc")
	return db, g
}

// A program that does not use this library, or forgets to, is refused by the database itself.
func TestProtectedTableTakesGuardedWritesOnly(t *testing.T) {
	db, g := openProtected(t)
	for _, w := range writes {
		refused(t, db, w)
	}
	for _, w := range append(writes, "INSERT INTO doc VALUES (1, 1)") {
		guarded(t, g, w)
	}
	// The check of an earlier transaction of the same session does not count.
	db.SetMaxOpenConns(1)
	guarded(t, g)
	refused(t, db, writes[0])

	// A refused one cannot be swallowed into a write without the guard.
	err := g.Do(t.Context(), "y", 5, doExec(writes[0]))
	if err == nil || !strings.Contains(err.Error(), missing) || !strings.Contains(err.Error(), "INSERT on") || errors.Is(err, guard.ErrUnknown) {
		t.Errorf("with a check for another resource: %v", err)
	}
	value[int](t, db, "SELECT count(*) FROM doc") // reading is not refused
	_, err = db.Exec("DO $$ DECLARE h text; BEGIN DELETE FROM doc; EXCEPTION WHEN SQLSTATE 'UF001' THEN GET STACKED DIAGNOSTICS h = PG_EXCEPTION_HINT; PERFORM set_config('my.hint', h, false); END $$")
	if hint := value[string](t, db, "SELECT current_setting('my.hint')"); err != nil || !strings.Contains(hint, "Call Check") {
		t.Errorf("the hint is %q, %v", hint, err)
	}
}

// A stale holder writes nothing, whatever it does about the refusal.
func TestProtectedTableRefusesTheStaleHolderThatGoesOn(t *testing.T) {
	db, g := openProtected(t)
	if err := g.Seal(t.Context(), "x", 9); err != nil {
		t.Fatal(err)
	}
	// The statement that Check runs, without looking at its outcome.
	refused(t, db, `INSERT INTO fencedlock_marks AS m VALUES ('x', 5, 1, pg_current_xact_id()) ON CONFLICT (resource)
		DO UPDATE SET token = EXCLUDED.token, txid = EXCLUDED.txid WHERE m.token <= EXCLUDED.token`, writes[0])
}

// Triggers of the ordinary kind do not fire for replication, and any superuser's session can say that it is that.
func TestProtectionHoldsUnderReplicationRole(t *testing.T) {
	db, g := openProtected(t)
	for _, role := range []string{"replica", "local"} {
		for _, w := range writes {
			refused(t, db, "SET LOCAL session_replication_role = "+role, w)
		}
	}
	guarded(t, g, "SET LOCAL session_replication_role = replica", writes[0])
}

// ROLLBACK TO gives up the mark and its lock, so a check in there does not count afterwards.
func TestProtectionAndSavepoints(t *testing.T) {
	db, g := openProtected(t)
	// What the library's own check refuses to do in a savepoint.
	const raise = `INSERT INTO fencedlock_marks AS m VALUES ('x', 5, 1, pg_current_xact_id()) ON CONFLICT (resource)
		DO UPDATE SET checks = m.checks + 1, txid = EXCLUDED.txid`
	if err := inTx(t, db, raise, writes[1]); err != nil {
		t.Errorf("outside of a savepoint: %v", err)
	}
	refused(t, db, "SAVEPOINT a", raise, "ROLLBACK TO a", writes[0])
	refused(t, db, "SAVEPOINT a", raise, writes[0])
	refused(t, db, "SAVEPOINT a", raise, "RELEASE a", writes[0])
	guarded(t, g, "SAVEPOINT a", writes[0], "ROLLBACK TO a", writes[0])
	if n := value[int](t, db, "SELECT count(*) FROM doc"); n != 2 {
		t.Errorf("%d rows; want 2", n)
	}
}

func TestProtectIsIdempotentAndAllOrNothing(t *testing.T) {
	db, g := openProtected(t)
	// Once more, while somebody writes: it takes no lock when there is nothing to do.
	tx := begin(t, db)
	if err := g.Check(t.Context(), tx, "x", 5); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(writes[0]); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := g.Protect(ctx, "doc", "x"); err != nil {
		t.Errorf("Protect while somebody writes: %v", err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	count := "SELECT count(*) FROM pg_trigger WHERE tgrelid = 'doc'::regclass"
	if n := value[int](t, db, count); n != 3 {
		t.Errorf("%d triggers; want 3", n)
	}
	// What somebody switched off is switched on again.
	mustExec(t, db, "ALTER TABLE doc DISABLE TRIGGER ALL")
	protect(t, g, "doc")
	refused(t, db, writes[0])

	if err := g.Protect(t.Context(), "doc", "y"); err == nil || !strings.Contains(err.Error(), "Unprotect") {
		t.Errorf("Protect for another resource: %v", err)
	}
	for range 2 {
		if err := g.Unprotect(t.Context(), "doc"); err != nil {
			t.Error(err)
		}
	}
	if err := inTx(t, db, writes[1]); err != nil {
		t.Errorf("after Unprotect: %v", err)
	}

	// Half-way is no way: the second trigger cannot be created, so the first is not there either.
	mustExec(t, db, "CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
		"CREATE TABLE half (n int)", "CREATE TRIGGER other BEFORE INSERT ON half FOR EACH STATEMENT EXECUTE FUNCTION nothing()",
		"CREATE TABLE halfchild () INHERITS (half)", "CREATE TRIGGER fencedlock_protect_truncate BEFORE INSERT ON halfchild FOR EACH STATEMENT EXECUTE FUNCTION nothing()")
	if err := g.Protect(t.Context(), "half", "x"); err == nil {
		t.Error("Protect over a foreign trigger of the same name succeeds")
	}
	if err := inTx(t, db, "INSERT INTO half VALUES (1)"); err != nil {
		t.Errorf("after a Protect that failed: %v", err)
	}

	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := g.Protect(t.Context(), "doc", "x"); err != nil {
				t.Errorf("several at once: %v", err)
			}
		})
	}
	wg.Wait()
	refused(t, db, writes[0])
}

func TestProtectRefusesWhatMakesNoSense(t *testing.T) {
	db, g := openProtected(t)
	mustExec(t, db, "CREATE VIEW seen AS SELECT * FROM doc")
	for _, c := range []struct{ table, resource, says string }{
		{"", "x", "table"}, {"a b", "x", "table"}, {`doc"; DROP TABLE doc; --`, "x", "table"}, {"a.b.c", "x", "table"}, {"doc'", "x", "table"},
		{"doc", "", "name"}, {"doc", "a\x00", "name"}, {"nowhere", "x", "no table"}, {"seen", "x", "no table"}, {"fencedlock_marks", "x", "marks"}, {"fencedlock_marks_once", "x", "operations"},
	} {
		err := g.Protect(t.Context(), c.table, c.resource)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("Protect(%q, %q) = %v; want an error about %q", c.table, c.resource, err, c.says)
		}
		if c.resource == "x" && c.says == "table" {
			if err := g.Unprotect(t.Context(), c.table); err == nil {
				t.Errorf("Unprotect(%q) is allowed", c.table)
			}
		}
	}
	// Names that need quotes, and resources that would end them.
	for _, resource := range []string{"it's", `back\slash`, "$body$", "$fencedlock$", "%s %I", strings.Repeat("é", 256), "鍵"} {
		mustExec(t, db, `DROP TABLE IF EXISTS "Select"`, `CREATE TABLE "Select" (n int)`)
		if err := g.Protect(t.Context(), "Select", resource); err != nil {
			t.Errorf("%q: %v", resource, err)
			continue
		}
		if err := inTx(t, db, `INSERT INTO "Select" VALUES (1)`); err == nil || !strings.Contains(err.Error(), resource) {
			t.Errorf("%q, unguarded: %v", resource, err)
		}
		if err := g.Do(t.Context(), resource, 5, doExec(`INSERT INTO "Select" VALUES (1)`)); err != nil {
			t.Errorf("%q, guarded: %v", resource, err)
		}
	}
	lite := newGuard(t, openSQLite(t), sqlguard.SQLite, nil)
	for op, err := range map[string]error{"Protect": lite.Protect(t.Context(), "doc", "x"), "Unprotect": lite.Unprotect(t.Context(), "doc")} {
		if err == nil || !strings.Contains(err.Error(), "only PostgreSQL") {
			t.Errorf("%s on SQLite: %v", op, err)
		}
	}
	mustExec(t, db, "DROP TABLE fencedlock_marks")
	if err := g.Protect(t.Context(), "doc", "x"); err == nil || !strings.Contains(err.Error(), "call Migrate") {
		t.Errorf("without a table of marks: %v", err)
	}
}
