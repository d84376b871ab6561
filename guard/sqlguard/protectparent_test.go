package sqlguard_test

import (
	"testing"

	"github.com/fencedlock/fencedlock/guard/sqlguard"
)

// A statement fires the triggers of statements of the table that it names alone, and writes to what inherits from it:
// https://www.postgresql.org/docs/15/trigger-definition.html
func TestProtectedTableIsNotWrittenThroughItsParents(t *testing.T) {
	for _, c := range []struct {
		name, protected string
		setup           []string
		through, others []string // what writes to a protected table, and what does not
	}{
		{
			"partition", "doc1",
			[]string{"CREATE TABLE doc (id int, n int) PARTITION BY RANGE (id)", "CREATE TABLE doc1 PARTITION OF doc FOR VALUES FROM (0) TO (10)",
				"CREATE TABLE doc2 PARTITION OF doc FOR VALUES FROM (10) TO (20)", "INSERT INTO doc VALUES (1, 1), (11, 1)"},
			[]string{"INSERT INTO doc VALUES (2, 2)", "UPDATE doc SET n = 3", "UPDATE doc SET id = 3 WHERE id = 11", "DELETE FROM doc", "TRUNCATE doc", "UPDATE doc1 SET n = 3"},
			[]string{"INSERT INTO doc VALUES (12, 2)", "UPDATE doc SET n = 3 WHERE id = 11", "UPDATE doc2 SET n = 3"},
		},
		{
			"partition with partitions", "doc1",
			[]string{"CREATE TABLE doc (id int, n int) PARTITION BY RANGE (id)", "CREATE TABLE doc1 PARTITION OF doc FOR VALUES FROM (0) TO (10) PARTITION BY RANGE (id)",
				"CREATE TABLE doc11 PARTITION OF doc1 DEFAULT", "INSERT INTO doc VALUES (1, 1)"},
			[]string{"INSERT INTO doc VALUES (2, 2)", "UPDATE doc SET n = 3", "DELETE FROM doc", "TRUNCATE doc", "INSERT INTO doc11 VALUES (1, 1)"},
			nil,
		},
		{
			"inheritance", "doc",
			[]string{"CREATE TABLE parent (id int, n int)", "CREATE TABLE doc () INHERITS (parent)", "INSERT INTO doc VALUES (1, 1)"},
			[]string{"UPDATE parent SET n = 3", "DELETE FROM parent", "TRUNCATE parent", "INSERT INTO doc VALUES (1, 1)"},
			[]string{"INSERT INTO parent VALUES (2, 2)", "UPDATE ONLY parent SET n = 3"},
		},
		{
			"two parents, and a child of the child", "doc",
			[]string{"CREATE TABLE doc (id int, n int)", "CREATE TABLE other (n int)", "CREATE TABLE chi () INHERITS (doc, other)",
				"CREATE TABLE below () INHERITS (chi)", "INSERT INTO below VALUES (1, 1)"},
			[]string{"UPDATE other SET n = 3", "DELETE FROM other", "DELETE FROM chi", "DELETE FROM below", "DELETE FROM doc"},
			[]string{"INSERT INTO other VALUES (2)", "TRUNCATE ONLY other"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := openPostgres(t)
			g := newGuard(t, db, sqlguard.Postgres, nil)
			mustExec(t, db, c.setup...)
			for range 2 { // the second one finds everything in place
				protect(t, g, c.protected)
				for _, w := range c.through {
					refused(t, db, w)
				}
				for _, w := range c.others {
					if err := inTx(t, db, w); err != nil {
						t.Errorf("%s, which does not write to %s: %v", w, c.protected, err)
					}
				}
			}
			for _, w := range c.through {
				guarded(t, g, w)
			}
			if err := g.Unprotect(t.Context(), c.protected); err != nil {
				t.Fatal(err)
			}
			for _, w := range c.through {
				if err := inTx(t, db, w); err != nil {
					t.Errorf("after Unprotect, %s: %v", w, err)
				}
			}
		})
	}
}

// A table that gets a parent later is as safe as that after another Protect, and stays so when the parent is protected, too.
func TestProtectAgainCoversALaterParent(t *testing.T) {
	db := openPostgres(t)
	g := newGuard(t, db, sqlguard.Postgres, nil)
	mustExec(t, db, "CREATE TABLE doc (n int)", "CREATE TABLE parent (n int)", "INSERT INTO doc VALUES (1)")
	protect(t, g, "doc")
	mustExec(t, db, "ALTER TABLE doc INHERIT parent")
	protect(t, g, "doc")
	refused(t, db, "UPDATE parent SET n = 2")
	protect(t, g, "parent")
	mustExec(t, db, "DROP TRIGGER fencedlock_protect ON parent")
	refused(t, db, "UPDATE parent SET n = 2")
}

// Partitions can be protected one by one, and then all of them.
func TestProtectTakesOverFromItsPartitions(t *testing.T) {
	db := openPostgres(t)
	g := newGuard(t, db, sqlguard.Postgres, nil)
	mustExec(t, db, "CREATE TABLE doc (id int) PARTITION BY RANGE (id)", "CREATE TABLE doc1 PARTITION OF doc FOR VALUES FROM (0) TO (10)",
		"CREATE TABLE doc2 PARTITION OF doc FOR VALUES FROM (10) TO (20) PARTITION BY RANGE (id)", "CREATE TABLE doc21 PARTITION OF doc2 DEFAULT",
		"INSERT INTO doc VALUES (1), (11)")
	for _, table := range []string{"doc1", "doc21", "doc2", "doc", "doc2", "doc", "doc1"} {
		protect(t, g, table)
	}
	through := []string{"INSERT INTO doc VALUES (2)", "INSERT INTO doc1 VALUES (2)", "INSERT INTO doc2 VALUES (12)", "INSERT INTO doc21 VALUES (12)",
		"UPDATE doc SET id = 2", "DELETE FROM doc2", "TRUNCATE doc", "TRUNCATE doc1"}
	for _, w := range through {
		refused(t, db, w)
	}
	if err := g.Unprotect(t.Context(), "doc"); err != nil {
		t.Fatal(err)
	}
	for _, w := range through {
		if err := inTx(t, db, w); err != nil {
			t.Errorf("after Unprotect, %s: %v", w, err)
		}
	}
}
