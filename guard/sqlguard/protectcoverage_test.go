package sqlguard_test

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/fencedlock/fencedlock/guard/sqlguard"
	"github.com/fencedlock/fencedlock/internal/pgtest"
)

// A statement on a partition passes its parent's statement triggers, and so does TRUNCATE on it.
func TestProtectionCoversPartitions(t *testing.T) {
	db := openPostgres(t)
	g := newGuard(t, db, sqlguard.Postgres, nil)
	mustExec(t, db, "CREATE TABLE doc (id int, n int) PARTITION BY RANGE (id)",
		"CREATE TABLE doc1 PARTITION OF doc FOR VALUES FROM (0) TO (10)",
		"CREATE TABLE doc2 PARTITION OF doc FOR VALUES FROM (10) TO (30) PARTITION BY RANGE (id)",
		"CREATE TABLE doc2a PARTITION OF doc2 FOR VALUES FROM (10) TO (20)",
		"INSERT INTO doc VALUES (1, 1), (11, 1)")
	protect(t, g, "doc")
	all := func(table, id string) []string {
		return []string{"INSERT INTO " + table + " VALUES (" + id + ", 2)", "UPDATE " + table + " SET n = 3", "DELETE FROM " + table, "TRUNCATE " + table}
	}
	for table, id := range map[string]string{"doc": "1", "doc1": "1", "doc2": "11", "doc2a": "11"} {
		for _, w := range all(table, id) {
			refused(t, db, w)
			refused(t, db, "SET LOCAL session_replication_role = replica", w)
			guarded(t, g, w, "INSERT INTO doc VALUES (1, 1), (11, 1)")
		}
	}

	// Partitions that come later: rows at once, TRUNCATE and the settings of replication after the next Protect.
	mustExec(t, db, "CREATE TABLE doc3 PARTITION OF doc FOR VALUES FROM (30) TO (40)",
		"CREATE TABLE doc4 (id int, n int)", "INSERT INTO doc4 VALUES (41, 1)", "ALTER TABLE doc ATTACH PARTITION doc4 FOR VALUES FROM (40) TO (50)")
	guarded(t, g, "INSERT INTO doc VALUES (31, 1)")
	for table, id := range map[string]string{"doc3": "31", "doc4": "41"} {
		for _, w := range all(table, id)[:3] {
			refused(t, db, w)
			refused(t, db, "SET LOCAL session_replication_role = replica", w)
		}
	}
	if err := inTx(t, db, "TRUNCATE doc3"); err != nil {
		t.Errorf("TRUNCATE on a partition attached since: %v; if that is refused now, let Protect say so", err)
	}
	protect(t, g, "doc")
	for table, id := range map[string]string{"doc3": "31", "doc4": "41"} {
		for _, w := range all(table, id) {
			if w != "UPDATE doc3 SET n = 3" && w != "DELETE FROM doc3" { // it is empty, and refused all the same
				refused(t, db, w)
			}
		}
		guarded(t, g, all(table, id)...)
	}

	if err := g.Unprotect(t.Context(), "doc1"); err == nil || !strings.Contains(err.Error(), "partition") {
		t.Errorf("Unprotect on a partition: %v", err)
	}
	if err := g.Unprotect(t.Context(), "doc"); err != nil {
		t.Fatal(err)
	}
	if err := inTx(t, db, "INSERT INTO doc1 VALUES (1, 1)", "DELETE FROM doc", "TRUNCATE doc2a", "TRUNCATE doc"); err != nil {
		t.Errorf("after Unprotect: %v", err)
	}
	if n := value[int](t, db, "SELECT count(*) FROM pg_trigger WHERE tgrelid IN ('doc'::regclass, 'doc1'::regclass, 'doc2a'::regclass, 'doc4'::regclass)"); n != 0 {
		t.Errorf("%d triggers are left", n)
	}
}

func TestProtectionCoversTablesThatInherit(t *testing.T) {
	db, g := openProtected(t)
	mustExec(t, db, "CREATE TABLE child () INHERITS (doc)", "INSERT INTO child VALUES (7, 7)")
	protect(t, g, "doc")
	refused(t, db, "INSERT INTO child VALUES (8, 8)")
	refused(t, db, "TRUNCATE child")
	guarded(t, g, "INSERT INTO child VALUES (8, 8)", "TRUNCATE child")
}

// Whoever may write the table needs no rights on the marks to be refused, and those of Check to be let in.
func TestProtectionOfUnprivilegedRoles(t *testing.T) {
	dsn := pgtest.Database(t)
	owner := openDB(t, "pgx", dsn)
	g := newGuard(t, owner, sqlguard.Postgres, nil)
	mustExec(t, owner, "CREATE TABLE doc (id int PRIMARY KEY, n int)", "CREATE ROLE writer LOGIN", "CREATE ROLE holder LOGIN",
		"GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON doc TO writer, holder", "GRANT SELECT, INSERT, UPDATE ON fencedlock_marks TO holder",
		"CREATE SCHEMA mine AUTHORIZATION writer")
	t.Cleanup(func() { mustExec(t, owner, "DROP OWNED BY writer, holder", "DROP ROLE writer, holder") })
	protect(t, g, "doc")
	writer := openDB(t, "pgx", strings.Replace(dsn, "postgres@", "writer@", 1))
	for _, w := range []string{"INSERT INTO doc VALUES (1, 1)", "UPDATE doc SET n = 1", "DELETE FROM doc", "TRUNCATE doc"} {
		refused(t, writer, w)
	}
	// A table and a function of its own that look like ours, found first by its search path.
	refused(t, writer, "CREATE TEMPORARY TABLE fencedlock_marks (resource text, token bigint, checks bigint)", "INSERT INTO fencedlock_marks VALUES ('x', 5, 1)", "INSERT INTO doc VALUES (1, 1)")
	refused(t, writer, "SET LOCAL search_path = mine, pg_catalog",
		"CREATE FUNCTION mine.pg_current_xact_id_if_assigned() RETURNS xid8 LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT xmin::text::xid8 FROM public.fencedlock_marks LIMIT 1); END'",
		"CREATE FUNCTION mine.always(text, text) RETURNS bool LANGUAGE sql AS 'SELECT true'",
		"CREATE OPERATOR mine.= (LEFTARG = text, RIGHTARG = text, FUNCTION = mine.always)",
		"INSERT INTO public.doc VALUES (1, 1)")
	if err := inTx(t, writer, "ALTER TABLE doc DISABLE TRIGGER ALL"); err == nil {
		t.Error("a role that may only write switched the triggers off")
	}
	holder := newGuard2(t, openDB(t, "pgx", strings.Replace(dsn, "postgres@", "holder@", 1)))
	guarded(t, holder, "INSERT INTO doc VALUES (1, 1)", "TRUNCATE doc")
	if err := holder.Unprotect(t.Context(), "doc"); err == nil || !strings.Contains(err.Error(), "owner") || strings.Contains(err.Error(), "a worker needs") {
		t.Errorf("Unprotect by somebody else than the owner: %v", err)
	}
}

func newGuard2(t *testing.T, db *sql.DB) *sqlguard.Guard {
	t.Helper()
	g, err := sqlguard.New(db, sqlguard.Postgres, nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}
