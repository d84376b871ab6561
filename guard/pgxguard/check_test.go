package pgxguard_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/pgxguard"
)

func begin(t *testing.T, pool *pgxpool.Pool, stmts ...string) pgx.Tx {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) }) // it has ended already if the test passes
	for _, s := range stmts {
		if _, err := tx.Exec(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	return tx
}

func TestCheckGuardsTheUsersOwnTransaction(t *testing.T) {
	pool := newPool(t)
	var outcomes []string
	g := newGuard(t, pool, &pgxguard.Options{
		OnOutcome: func(_ context.Context, resource string, tok guard.Token, err error) {
			s := resource + " " + tok.String()
			if err != nil {
				s += " refused"
			}
			outcomes = append(outcomes, s)
		},
	})
	mustExec(t, pool, "CREATE TABLE doc (n int)")
	for _, tok := range []guard.Token{5, 5, 7, 6} {
		tx := begin(t, pool)
		err := g.Check(t.Context(), tx, "x", tok)
		if tok == 6 {
			var stale *guard.StaleError
			if !errors.As(err, &stale) || stale.Highest != 7 {
				t.Errorf("Check with 6 after 7: %v", err)
			}
			if _, err := tx.Exec(t.Context(), "INSERT INTO doc VALUES (6)"); !errors.Is(err, pgx.ErrTxClosed) {
				t.Fatalf("the refused transaction goes on: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		// A savepoint after Check is fine.
		nested, err := tx.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := nested.Exec(t.Context(), "INSERT INTO doc VALUES (99)"); err != nil {
			t.Error(err)
		}
		if err := nested.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := tx.Exec(t.Context(), "INSERT INTO doc VALUES (1)"); err != nil {
			t.Error(err)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := value[int](t, pool, "SELECT sum(n) FROM doc"); n != 3 {
		t.Errorf("the document holds %d; want 3", n)
	}
	if got := strings.Join(outcomes, ", "); got != "x 5, x 5, x 7, x 6 refused" {
		t.Errorf("outcomes: %s", got)
	}
	// What is rolled back has raised nothing.
	tx := begin(t, pool)
	if err := g.Check(t.Context(), tx, "x", 9); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if high, err := g.Highest(t.Context(), "x"); high != 7 || err != nil {
		t.Errorf("Highest = %d, %v; want 7", high, err)
	}
}

// myTx is a user's own type around pgx's, such as those that trace.
type myTx struct{ pgx.Tx }

// What was checked inside a savepoint is given up by ROLLBACK TO, and the older holder writes on while a newer one has
// passed. And a refusal inside one must not leave the transaction around it open: it is unguarded.
func TestCheckInsideASavepointEndsTheWholeTransaction(t *testing.T) {
	pool := newPool(t)
	g := newGuard(t, pool, nil)
	mustExec(t, pool, "CREATE TABLE doc (n int)")
	if err := g.Seal(t.Context(), "marked", 4); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		wrap     func(pgx.Tx) pgx.Tx
		resource string
		tok      guard.Token
		says     string
	}{
		{"nested, never marked", nil, "new", 5, "savepoint"},
		{"nested, marked", nil, "marked", 5, "savepoint"},
		{"nested, stale", nil, "marked", 3, "savepoint"},
		{"unseen, never marked", func(tx pgx.Tx) pgx.Tx { return myTx{tx} }, "new", 5, "savepoint"},
		{"unseen, marked", func(tx pgx.Tx) pgx.Tx { return myTx{tx} }, "marked", 5, "savepoint"},
		{"unseen, stale", func(tx pgx.Tx) pgx.Tx { return myTx{tx} }, "marked", 3, "stale"},
		{"unseen, no token", func(tx pgx.Tx) pgx.Tx { return myTx{tx} }, "marked", 0, "token"},
	} {
		outer := begin(t, pool, "INSERT INTO doc VALUES (1)")
		nested, err := outer.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if c.wrap != nil {
			nested = c.wrap(nested)
		}
		if err := g.Check(t.Context(), nested, c.resource, c.tok); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: Check = %v; want an error about %s", c.name, err, c.says)
		}
		if _, err := outer.Exec(t.Context(), "INSERT INTO doc VALUES (2)"); err == nil {
			t.Errorf("%s: the transaction goes on unguarded", c.name)
		}
		if err := outer.Commit(t.Context()); err == nil {
			t.Errorf("%s: the transaction was committed", c.name)
		}
	}
	// By a statement of the user's own, which pgx knows nothing of.
	tx := begin(t, pool, "INSERT INTO doc VALUES (3)", "SAVEPOINT a")
	if err := g.Check(t.Context(), tx, "marked", 5); err == nil || !strings.Contains(err.Error(), "savepoint") {
		t.Errorf("after SAVEPOINT: %v", err)
	}
	if err := tx.Commit(t.Context()); !errors.Is(err, pgx.ErrTxClosed) {
		t.Errorf("after SAVEPOINT the transaction goes on: %v", err)
	}
	if n := value[int](t, pool, "SELECT count(*) FROM doc"); n != 0 {
		t.Errorf("%d rows of refused transactions are stored", n)
	}
	if high, err := g.Highest(t.Context(), "marked"); high != 4 || err != nil {
		t.Errorf("Highest = %d, %v; want 4", high, err)
	}
	// One that was released before is none any more, and a type of the user's own is no fault.
	for _, wrap := range []func(pgx.Tx) pgx.Tx{func(tx pgx.Tx) pgx.Tx { return tx }, func(tx pgx.Tx) pgx.Tx { return myTx{tx} }} {
		tx = begin(t, pool, "SAVEPOINT a", "RELEASE SAVEPOINT a")
		if err := g.Check(t.Context(), wrap(tx), "marked", 5); err != nil {
			t.Errorf("after a savepoint: %v", err)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// A transaction of one connection without a pool is as good as one of the pool.
func TestCheckOnAConnectionsTransactionKeepsTheConnection(t *testing.T) {
	pool := newPool(t)
	g := newGuard(t, pool, nil)
	if err := g.Seal(t.Context(), "x", 7); err != nil {
		t.Fatal(err)
	}
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for _, tok := range []guard.Token{6, 8, 7} {
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err) // the connection did not survive the refusal
		}
		if err := g.Check(t.Context(), tx, "x", tok); errors.Is(err, guard.ErrStale) != (tok != 8) {
			t.Errorf("Check with %d: %v", tok, err)
		}
		if tok == 8 {
			if err := tx.Commit(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}

// A refused Check inside the user's transaction must not make the next holder wait for the user's clean-up.
func TestRefusedCheckLetsGoOfTheRowAtOnce(t *testing.T) {
	pool := newPool(t)
	g := newGuard(t, pool, nil)
	if err := g.Seal(t.Context(), "x", 7); err != nil {
		t.Fatal(err)
	}
	tx := begin(t, pool)
	if err := g.Check(t.Context(), tx, "x", 5); !errors.Is(err, guard.ErrStale) {
		t.Fatalf("Check = %v; want ErrStale", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := g.Do(ctx, "x", 7, doNothing); err != nil {
		t.Errorf("the holder waits for a refused transaction: %v", err)
	}
}

// One transaction on two resources: the refusal of the second takes back the first.
func TestTransactionOnTwoResourcesIsRefusedAsAWhole(t *testing.T) {
	pool := newPool(t)
	g := newGuard(t, pool, nil)
	mustExec(t, pool, "CREATE TABLE doc (n int)")
	if err := g.Seal(t.Context(), "b", 7); err != nil {
		t.Fatal(err)
	}
	transfer := func(tok guard.Token) error {
		return g.Do(t.Context(), "a", 5, func(ctx context.Context, tx pgx.Tx) error {
			if err := g.Check(ctx, tx, "b", tok); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "INSERT INTO doc VALUES (1)")
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
	if n := value[int](t, pool, "SELECT count(*) FROM doc"); n != 1 {
		t.Errorf("%d rows are stored; want 1", n)
	}
}

// In isolation levels with a snapshot, Check after a read fails instead of trusting an old mark.
func TestCheckAfterReadingAnOldSnapshotIsAConflict(t *testing.T) {
	pool := newPool(t)
	g := newGuard(t, pool, nil)
	tx := begin(t, pool, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SELECT 1") // takes the snapshot
	if err := g.Seal(t.Context(), "x", 9); err != nil {
		t.Fatal(err)
	}
	err := g.Check(t.Context(), tx, "x", 5)
	var code interface{ SQLState() string }
	if !errors.As(err, &code) || code.SQLState() != "40001" || errors.Is(err, guard.ErrStale) {
		t.Errorf("Check = %v; want 40001", err)
	}
	if err := tx.Commit(t.Context()); !errors.Is(err, pgx.ErrTxClosed) {
		t.Errorf("the transaction goes on: %v", err)
	}
}

// A row that a trigger swallows or changes is no mark: neither a higher one, nor one that guards.
func TestMarkThatSomethingChangesIsAnError(t *testing.T) {
	for name, body := range map[string]string{"swallowed": "BEGIN RETURN NULL; END", "lowered": "BEGIN NEW.token := 1; RETURN NEW; END"} {
		pool := newPool(t)
		g := newGuard(t, pool, nil)
		mustExec(t, pool, "CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS '"+body+"'",
			"CREATE TRIGGER meddle BEFORE INSERT OR UPDATE ON fencedlock_marks FOR EACH ROW EXECUTE FUNCTION meddle()")
		err := g.Do(t.Context(), "x", 5, func(context.Context, pgx.Tx) error { t.Error("fn ran"); return nil })
		if err == nil || errors.Is(err, guard.ErrStale) || !strings.Contains(err.Error(), "something changes the table of marks") {
			t.Errorf("%s: Do = %v", name, err)
		}
	}
}
