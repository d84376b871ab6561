package sqlguard_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencedlock/fencedlock/guard/sqlguard"
	"github.com/fencedlock/fencedlock/internal/pgtest"
)

// What the triggers call decides about everything, so Protect takes no function for its own that differs in anything.
func TestProtectMakesItsFunctionRight(t *testing.T) {
	db, g := openProtected(t)
	const right = "SELECT concat(prosrc, prosecdef, provolatile, proconfig, proowner) FROM pg_proc WHERE oid = to_regproc('fencedlock_marks_protect')"
	want := value[string](t, db, right)
	for _, change := range []string{
		"ALTER FUNCTION fencedlock_marks_protect() SECURITY INVOKER",
		"ALTER FUNCTION fencedlock_marks_protect() IMMUTABLE",
		"ALTER FUNCTION fencedlock_marks_protect() RESET search_path",
		"ALTER FUNCTION fencedlock_marks_protect() SET search_path = public",
		"ALTER FUNCTION fencedlock_marks_protect() SET session_replication_role = replica",
		"CREATE OR REPLACE FUNCTION fencedlock_marks_protect() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
	} {
		mustExec(t, db, change)
		if value[string](t, db, right) == want {
			t.Fatalf("%s changes nothing", change)
		}
		protect(t, g, "doc")
		if value[string](t, db, right) != want {
			t.Errorf("after %s Protect leaves the function as it is", change)
		}
		refused(t, db, writes[0])
		guarded(t, g, writes[1])
	}
}

// A function that was put there beforehand looks right until its owner replaces it.
func TestProtectRefusesAFunctionOfSomebodyElse(t *testing.T) {
	dsn := pgtest.Database(t)
	db := openDB(t, "pgx", dsn)
	g := newGuard(t, db, sqlguard.Postgres, nil)
	mustExec(t, db, "CREATE TABLE doc (n int)", "CREATE ROLE other LOGIN", "CREATE ROLE keeper")
	t.Cleanup(func() { mustExec(t, db, "DROP OWNED BY other, keeper CASCADE", "DROP ROLE other, keeper") })
	protect(t, g, "doc")
	mustExec(t, db, "ALTER FUNCTION fencedlock_marks_protect() OWNER TO other")
	if err := g.Protect(t.Context(), "doc", "x"); err == nil || !strings.Contains(err.Error(), "belongs to other") {
		t.Errorf("Protect = %v; want an error about the function's owner", err)
	}
	mustExec(t, db, "ALTER TABLE fencedlock_marks OWNER TO keeper", "ALTER FUNCTION fencedlock_marks_protect() OWNER TO keeper")
	protect(t, g, "doc")

	// Whoever owns a table of its own may use what is right, and need not own it.
	mustExec(t, db, "CREATE TABLE mine (n int)", "ALTER TABLE mine OWNER TO other", "GRANT SELECT ON fencedlock_marks TO other")
	theirs := newGuard2(t, openDB(t, "pgx", strings.Replace(dsn, "postgres@", "other@", 1)))
	if err := theirs.Protect(t.Context(), "mine", "x"); err != nil {
		t.Errorf("Protect by another owner: %v", err)
	}
	if err := theirs.Protect(t.Context(), "doc", "x"); err != nil {
		t.Errorf("Protect of what is protected, by somebody else: %v", err)
	}
	if err := theirs.Protect(t.Context(), "doc", "y"); err == nil {
		t.Error("somebody else chose another resource")
	}
}

// Whoever meets a table that is protected otherwise wants to know how; and a program, what it was refused for.
func TestProtectionSaysWhatItIsFor(t *testing.T) {
	db, g := openProtected(t)
	err := g.Protect(t.Context(), "doc", "y")
	for _, part := range []string{"doc", `the resource "x"`, "fencedlock_marks_protect", "call Unprotect first"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("for another resource: %v; want %q in it", err, part)
		}
	}
	refused(t, db, writes[0])
	guarded(t, g, writes[0]) // the first resource stays
	others := newGuard(t, db, sqlguard.Postgres, &sqlguard.Options{Table: "others"})
	if err := others.Protect(t.Context(), "doc", "x"); err == nil || !strings.Contains(err.Error(), "fencedlock_marks_protect") {
		t.Errorf("with other marks: %v", err)
	}
	if err := others.Unprotect(t.Context(), "doc"); err != nil {
		t.Errorf("Unprotect with other marks: %v", err)
	}
	refused(t, db, writes[0])

	_, err = db.Exec(writes[0])
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "UF001" {
		t.Errorf("the refusal is %v; want SQLSTATE UF001", err)
	}
	// Somebody's trigger that happens to have the same name, with arguments of its own.
	mustExec(t, db, "CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'", "CREATE TABLE foreign_one (n int)",
		"CREATE TRIGGER fencedlock_protect BEFORE INSERT ON foreign_one FOR EACH STATEMENT EXECUTE FUNCTION nothing('a', 'b')")
	if err := g.Protect(t.Context(), "foreign_one", "x"); err == nil || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("over somebody else's trigger: %v", err)
	}
}
