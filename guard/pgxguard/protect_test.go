package pgxguard_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// A program that knows nothing of guards writes past them: the table itself has to refuse.
func TestProtectedTableRefusesWhatDidNotPassCheck(t *testing.T) {
	pool := newPool(t)
	g := newGuard(t, pool, nil)
	mustExec(t, pool, "CREATE TABLE doc (n int)")
	for range 2 {
		if err := g.Protect(t.Context(), "doc", "x"); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(name string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "Check") || !strings.Contains(err.Error(), `"x"`) {
			t.Errorf("%s: %v; want a refusal that names Check and the resource", name, err)
		}
	}
	copyIn := func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.CopyFrom(ctx, pgx.Identifier{"doc"}, []string{"n"}, pgx.CopyFromRows([][]any{{1}}))
		return err
	}
	_, err := pool.Exec(t.Context(), "INSERT INTO doc VALUES (1)")
	refused("without Check", err)
	refused("COPY without Check", pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return copyIn(t.Context(), tx) }))
	refused("with a check for another resource", g.Do(t.Context(), "y", 5, copyIn))
	if err := g.Do(t.Context(), "x", 5, copyIn); err != nil {
		t.Errorf("with Check: %v", err)
	}
	if err := g.Do(t.Context(), "x", 5, func(ctx context.Context, tx pgx.Tx) error {
		return pgx.BeginFunc(ctx, tx, func(nested pgx.Tx) error { return copyIn(ctx, nested) })
	}); err != nil {
		t.Errorf("in a savepoint after Check: %v", err)
	}
	if n := value[int](t, pool, "SELECT count(*) FROM doc"); n != 2 {
		t.Errorf("%d rows; want 2", n)
	}
	if err := g.Unprotect(t.Context(), "doc"); err != nil {
		t.Fatal(err)
	}
	mustExec(t, pool, "TRUNCATE doc")
	for _, resource := range []string{"", "a\x00", strings.Repeat("x", 513)} {
		if err := g.Protect(t.Context(), "doc", resource); err == nil || !strings.Contains(err.Error(), "name") {
			t.Errorf("Protect for %.9q: %v; want an error about the name", resource, err)
		}
	}
	mustExec(t, pool, "INSERT INTO doc VALUES (1)") // nothing came of those
	if err := g.Protect(t.Context(), "nowhere", "x"); err == nil || strings.Contains(err.Error(), "call Migrate") {
		t.Errorf("Protect of a table that is not there: %v", err)
	}
}
