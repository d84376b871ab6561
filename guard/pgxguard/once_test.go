package pgxguard_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencedlock/fencedlock/guard/pgxguard"
)

// credit adds 1 to the account unless the operation was done before.
func credit(g *pgxguard.Guard, resource, operation string) func(context.Context, pgx.Tx) error {
	return func(ctx context.Context, tx pgx.Tx) error {
		first, err := g.Once(ctx, tx, resource, operation)
		if err != nil || !first {
			return err
		}
		_, err = tx.Exec(ctx, "UPDATE account SET n = n + 1")
		return err
	}
}

func TestOperationHasItsEffectOnceWhoeverRunsIt(t *testing.T) {
	pool := newPool(t)
	g := newGuard(t, pool, nil)
	mustExec(t, pool, "CREATE TABLE account (n int)", "INSERT INTO account VALUES (0)")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for _, op := range []string{"a", "A", "a ", "á"} {
				for _, r := range []string{"x", "X"} {
					// The checks are for a third resource, so that they keep nobody apart.
					if err := g.Do(t.Context(), t.Name(), 5, credit(g, r, op)); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	if n := value[int](t, pool, "SELECT n FROM account"); n != 8 {
		t.Errorf("8 operations had %d effects", n)
	}
	// Rolled back, so not done.
	boom := errors.New("boom")
	err := g.Do(t.Context(), "x", 5, func(ctx context.Context, tx pgx.Tx) error {
		return errors.Join(credit(g, "x", "rolled back")(ctx, tx), boom)
	})
	if !errors.Is(err, boom) {
		t.Error(err)
	}
	if err := g.Do(t.Context(), "x", 7, credit(g, "x", "rolled back")); err != nil {
		t.Error(err)
	}
	if n := value[int](t, pool, "SELECT n FROM account"); n != 9 {
		t.Errorf("after one that was rolled back first the account says %d; want 9", n)
	}
}

func TestOnceRefusesBadArgumentsAndEndsTheTransaction(t *testing.T) {
	pool := newPool(t)
	g := newGuard(t, pool, nil)
	for _, c := range []struct{ resource, operation, says string }{
		{"", "a", "name"}, {"x\x00", "a", "name"}, {"x", "", "operation"}, {"x", "\xff", "operation"}, {"x", strings.Repeat("x", 513), "operation"},
	} {
		outer := begin(t, pool)
		nested, err := outer.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		first, err := g.Once(t.Context(), nested, c.resource, c.operation)
		if first || err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("Once(%.10q, %.10q) = %v, %v; want an error about the %s", c.resource, c.operation, first, err, c.says)
		}
		if err := outer.Commit(t.Context()); err == nil {
			t.Errorf("Once(%.10q, %.10q): the transaction goes on", c.resource, c.operation)
		}
	}
	// A record that something swallowed was not made by anybody.
	mustExec(t, pool, "CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
		"CREATE TRIGGER swallow BEFORE INSERT ON fencedlock_marks_once FOR EACH ROW EXECUTE FUNCTION swallow()")
	if _, err := g.Once(t.Context(), begin(t, pool), "x", "a"); err == nil || !strings.Contains(err.Error(), "something changes the table of operations") {
		t.Errorf("a swallowed record: %v", err)
	}
}

func TestPruneOnceKeepsWhatIsYounger(t *testing.T) {
	pool := newPool(t)
	g := newGuard(t, pool, nil)
	mustExec(t, pool, "INSERT INTO fencedlock_marks_once VALUES ('x', 'old', now() - interval '2 hours'), ('x', 'young', now() - interval '30 minutes')")
	if n, err := g.PruneOnce(t.Context(), time.Hour); n != 1 || err != nil {
		t.Errorf("PruneOnce = %d, %v; want 1", n, err)
	}
	if op := value[string](t, pool, "SELECT operation FROM fencedlock_marks_once"); op != "young" {
		t.Errorf("%q is left", op)
	}
	for _, age := range []time.Duration{0, -1, -time.Hour} {
		if n, err := g.PruneOnce(t.Context(), age); n != 0 || err == nil || !strings.Contains(err.Error(), "age") {
			t.Errorf("PruneOnce(%v) = %d, %v; want an error about the age", age, n, err)
		}
	}
}
