package sqlguard_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/sqlguard"
)

func begin(t *testing.T, db *sql.DB, stmts ...string) *sql.Tx {
	t.Helper()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() }) // it has ended already if the test passes
	for _, s := range stmts {
		_, _ = tx.Exec(s) // some are meant to fail
	}
	return tx
}

func TestCheckGuardsTheUsersOwnTransaction(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		db := b.open(t)
		var outcomes []string
		g := newGuard(t, db, b.dialect, &sqlguard.Options{
			OnOutcome: func(_ context.Context, resource string, tok guard.Token, err error) {
				s := resource + " " + tok.String()
				if err != nil {
					s += " refused"
				}
				outcomes = append(outcomes, s)
			},
		})
		mustExec(t, db, "CREATE TABLE doc (n int)")
		for _, tok := range []guard.Token{5, 5, 7, 6} {
			tx := begin(t, db)
			err := g.Check(t.Context(), tx, "x", tok)
			if tok == 6 {
				var stale *guard.StaleError
				if !errors.As(err, &stale) || stale.Highest != 7 {
					t.Errorf("Check with 6 after 7: %v", err)
				}
				if _, err := tx.Exec("INSERT INTO doc VALUES (6)"); !errors.Is(err, sql.ErrTxDone) {
					t.Errorf("the refused transaction goes on: %v", err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			// A savepoint after Check is fine.
			for _, s := range []string{"SAVEPOINT a", "INSERT INTO doc VALUES (99)", "ROLLBACK TO SAVEPOINT a", "INSERT INTO doc VALUES (1)"} {
				if _, err := tx.Exec(s); err != nil {
					t.Fatalf("%s: %v", s, err)
				}
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
		}
		if n := value[int](t, db, "SELECT sum(n) FROM doc"); n != 3 {
			t.Errorf("the document holds %d; want 3", n)
		}
		if got := strings.Join(outcomes, ", "); got != "x 5, x 5, x 7, x 6 refused" {
			t.Errorf("outcomes: %s", got)
		}
		// What is rolled back has raised nothing.
		tx := begin(t, db)
		if err := g.Check(t.Context(), tx, "x", 9); err != nil {
			t.Fatal(err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if high, err := g.Highest(t.Context(), "x"); high != 7 || err != nil {
			t.Errorf("Highest = %d, %v; want 7", high, err)
		}
	})
}

// One transaction on two resources: the refusal of the second takes back the first.
func TestTransactionOnTwoResourcesIsRefusedAsAWhole(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		db := b.open(t)
		g := newGuard(t, db, b.dialect, nil)
		mustExec(t, db, "CREATE TABLE doc (n int)")
		if err := g.Seal(t.Context(), "b", 7); err != nil {
			t.Fatal(err)
		}
		transfer := func(tok guard.Token) error {
			return g.Do(t.Context(), "a", 5, func(ctx context.Context, tx *sql.Tx) error {
				if err := g.Check(ctx, tx, "b", tok); err != nil {
					return err
				}
				_, err := tx.ExecContext(ctx, "INSERT INTO doc VALUES (1)")
				return err
			})
		}
		var stale *guard.StaleError
		if err := transfer(6); !errors.As(err, &stale) || stale.Resource != "b" {
			t.Errorf("with a stale token for b: %v", err)
		}
		if high, err := g.Highest(t.Context(), "a"); high != 0 || err != nil {
			t.Errorf("Highest of a = %d, %v; want 0", high, err)
		}
		if err := transfer(7); err != nil {
			t.Error(err)
		}
		if n := value[int](t, db, "SELECT count(*) FROM doc"); n != 1 {
			t.Errorf("%d rows are stored; want 1", n)
		}
	})
}

// ROLLBACK TO a savepoint gives up what Check did inside it, and a newer holder gets through while the older one writes on.
func TestCheckRefusesToRunInASavepointOfPostgres(t *testing.T) {
	db := openPostgres(t)
	g := newGuard(t, db, sqlguard.Postgres, nil)
	for _, r := range []string{"new", "marked"} {
		if r == "marked" {
			if err := g.Seal(t.Context(), r, 4); err != nil {
				t.Fatal(err)
			}
		}
		tx := begin(t, db, "SAVEPOINT a")
		if err := g.Check(t.Context(), tx, r, 5); err == nil || !strings.Contains(err.Error(), "savepoint") {
			t.Errorf("%s: Check inside a savepoint: %v", r, err)
		}
		if err := tx.Commit(); !errors.Is(err, sql.ErrTxDone) {
			t.Errorf("%s: the transaction goes on: %v", r, err)
		}
		// One that was released before is none any more.
		tx = begin(t, db, "SAVEPOINT a", "RELEASE SAVEPOINT a")
		if err := g.Check(t.Context(), tx, r, 5); err != nil {
			t.Errorf("%s: after a savepoint: %v", r, err)
		}
		if err := tx.Commit(); err != nil {
			t.Error(err)
		}
	}
}

// In isolation levels with a snapshot, Check after a read fails instead of trusting an old mark.
func TestCheckAfterReadingAnOldSnapshotIsAConflict(t *testing.T) {
	db := openPostgres(t)
	g := newGuard(t, db, sqlguard.Postgres, nil)
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec("SELECT 1"); err != nil { // takes the snapshot
		t.Fatal(err)
	}
	if err := g.Seal(t.Context(), "x", 9); err != nil {
		t.Fatal(err)
	}
	err = g.Check(t.Context(), tx, "x", 5)
	var code interface{ SQLState() string }
	if !errors.As(err, &code) || code.SQLState() != "40001" || errors.Is(err, guard.ErrStale) {
		t.Errorf("Check = %v; want 40001", err)
	}
	if err := tx.Commit(); !errors.Is(err, sql.ErrTxDone) {
		t.Errorf("the transaction goes on: %v", err)
	}
}

// A row that a trigger swallows is no higher mark: it was not seen.
func TestSwallowedMarkIsNotCalledStale(t *testing.T) {
	for _, c := range []struct {
		b     backend
		stmts []string
	}{
		{backends[0], []string{
			"CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
			"CREATE TRIGGER swallow BEFORE INSERT ON fencedlock_marks FOR EACH ROW EXECUTE FUNCTION swallow()"}},
		{backends[1], []string{"CREATE TRIGGER swallow BEFORE INSERT ON fencedlock_marks BEGIN SELECT RAISE(IGNORE); END"}},
	} {
		db := c.b.open(t)
		g := newGuard(t, db, c.b.dialect, nil)
		mustExec(t, db, c.stmts...)
		for range 2 {
			err := g.Do(t.Context(), "x", 5, func(context.Context, *sql.Tx) error { t.Error("fn ran"); return nil })
			if err == nil || errors.Is(err, guard.ErrStale) || !strings.Contains(err.Error(), "something changes the table of marks") {
				t.Errorf("%s: %v", c.b.name, err)
			}
		}
	}
}

// A mark that is stored otherwise than written guards nothing.
func TestChangedMarkIsAnError(t *testing.T) {
	for dialect, stmts := range map[sqlguard.Dialect][]string{
		sqlguard.Postgres: {
			"CREATE FUNCTION lower() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.token := 1; RETURN NEW; END'",
			"CREATE TRIGGER lower BEFORE INSERT OR UPDATE ON fencedlock_marks FOR EACH ROW EXECUTE FUNCTION lower()"},
		sqlguard.MySQL: {"CREATE TRIGGER low BEFORE INSERT ON fencedlock_marks FOR EACH ROW SET NEW.token = 1"},
	} {
		db := backendOf(dialect).open(t)
		g := newGuard(t, db, dialect, nil)
		mustExec(t, db, stmts...)
		err := g.Do(t.Context(), "x", 5, func(context.Context, *sql.Tx) error { t.Error("fn ran"); return nil })
		if err == nil || errors.Is(err, guard.ErrStale) || !strings.Contains(err.Error(), "something changes the table of marks") {
			t.Errorf("%v: Do = %v; want an error about the table", dialect, err)
		}
	}
}

// A mark that is there and cannot be one must not count as "never marked", nor be raised.
func TestDamagedMarkIsAnError(t *testing.T) {
	for _, c := range []struct {
		dialect sqlguard.Dialect
		mark    string
	}{
		{sqlguard.SQLite, "'seven'"}, {sqlguard.SQLite, "-7"}, {sqlguard.SQLite, "0"}, {sqlguard.SQLite, "x'07'"},
		{sqlguard.Postgres, "-7"}, {sqlguard.Postgres, "0"},
	} {
		db := backendOf(c.dialect).open(t)
		db.SetMaxOpenConns(1)
		g := newGuard(t, db, c.dialect, nil)
		if c.dialect == sqlguard.SQLite {
			mustExec(t, db, "PRAGMA ignore_check_constraints = on")
		}
		mustExec(t, db, "INSERT INTO fencedlock_marks VALUES ('x', "+c.mark+", 1)")
		if high, err := g.Highest(t.Context(), "x"); err == nil {
			t.Errorf("%v, mark %s: Highest = %d, nil", c.dialect, c.mark, high)
		}
		err := g.Do(t.Context(), "x", 5, func(context.Context, *sql.Tx) error { t.Error("fn ran"); return nil })
		if err == nil || errors.Is(err, guard.ErrStale) || errors.Is(err, guard.ErrUnknown) {
			t.Errorf("%v, mark %s: Do = %v; want an error of its own", c.dialect, c.mark, err)
		}
		if n := value[int](t, db, "SELECT count(*) FROM fencedlock_marks WHERE resource = 'x' AND token = "+c.mark); n != 1 {
			t.Errorf("%v: the mark %s was changed", c.dialect, c.mark)
		}
	}
}
