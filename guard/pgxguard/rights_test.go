package pgxguard_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencedlock/fencedlock/guard/pgxguard"
	"github.com/fencedlock/fencedlock/internal/pgtest"
)

// The owner migrates, and the workers have the rights that the package's text names. Each of them is needed, and the error
// says which there are.
func TestWorkerNeedsTheRightsThatAreDocumentedAndNoOthers(t *testing.T) {
	dsn := pgtest.Database(t)
	owner := openPool(t, dsn)
	mustExec(t, owner, "CREATE ROLE worker LOGIN", "CREATE SCHEMA app")
	t.Cleanup(func() { mustExec(t, owner, "DROP OWNED BY worker", "DROP ROLE worker") })
	o := &pgxguard.Options{Table: "app.fencedlock_marks"}
	newGuard(t, owner, o)
	g, err := pgxguard.New(openPool(t, strings.Replace(dsn, "postgres@", "worker@", 1)), o)
	if err != nil {
		t.Fatal(err)
	}
	const marks, once = " ON app.fencedlock_marks", " ON app.fencedlock_marks_once"
	rights := []string{"USAGE ON SCHEMA app", "SELECT" + marks, "INSERT" + marks, "UPDATE" + marks, "SELECT" + once, "INSERT" + once, "DELETE" + once}
	for _, r := range rights {
		mustExec(t, owner, "GRANT "+r+" TO worker")
	}
	for op, err := range work(t, g) {
		if err != nil {
			t.Errorf("%s with all rights: %v", op, err)
		}
	}
	for _, r := range rights {
		mustExec(t, owner, "REVOKE "+r+" FROM worker")
		refused := 0
		for op, err := range work(t, g) {
			if err == nil {
				continue
			}
			refused++
			for _, part := range []string{"a right is missing", "SELECT, INSERT and UPDATE on", `"fencedlock_marks"`, "SELECT and INSERT on", `"fencedlock_marks_once"`} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%s without %s: %v; want %q in it", op, r, err, part)
				}
			}
		}
		if refused == 0 {
			t.Errorf("without %s everything goes, so nobody needs it", r)
		}
		if strings.HasPrefix(r, "DELETE") && refused != 1 {
			t.Errorf("without %s %d operations are refused; want PruneOnce alone", r, refused)
		}
		mustExec(t, owner, "GRANT "+r+" TO worker")
	}
	mustExec(t, owner, "CREATE TABLE app.doc (n int)")
	if err := g.Protect(t.Context(), "app.doc", "x"); err == nil || strings.Contains(err.Error(), "a worker needs") {
		t.Errorf("Protect by a worker: %v; want a refusal that does not send for rights that it has", err)
	}
}

// work does all that a worker does.
func work(t *testing.T, g *pgxguard.Guard) map[string]error {
	_, errHighest := g.Highest(t.Context(), "x")
	_, errPrune := g.PruneOnce(t.Context(), time.Microsecond)
	var errMarks error
	for _, err := range g.Marks(t.Context()) {
		if err != nil {
			errMarks = err
		}
	}
	// Twice, since the second one takes another way.
	once := func(ctx context.Context, tx pgx.Tx) error {
		if _, err := g.Once(ctx, tx, "x", "a"); err != nil {
			return err
		}
		_, err := g.Once(ctx, tx, "x", "a")
		return err
	}
	return map[string]error{"Migrate": g.Migrate(t.Context()), "Seal": g.Seal(t.Context(), "x", 5), "Once": g.Do(t.Context(), "x", 5, once),
		"PruneOnce": errPrune, "Highest": errHighest, "Marks": errMarks}
}
