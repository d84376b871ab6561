package pgxguard_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/pgxguard"
	"github.com/fencedlock/fencedlock/internal/pgtest"
)

// Whoever ends Do's transaction inside fn takes the outcome out of its hands: it may be stored, so neither may Do say that
// nothing is, nor run fn again, whatever fn returns. PostgreSQL answers COMMIT and ROLLBACK after it with a warning only.
func TestTransactionThatFnEndedIsUnknown(t *testing.T) {
	pool := openPool(t, pgtest.Start(t, false, "max_prepared_transactions=10").DSN("postgres"))
	g := newGuard(t, pool, nil)
	mustExec(t, pool, "CREATE TABLE doc (n int)")
	for _, c := range []struct {
		name   string
		end    func(context.Context, pgx.Tx) error
		stored int
	}{
		{"committed", func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) }, 1},
		{"rolled back", func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) }, 0},
		{"committed by a statement", doExec("COMMIT"), 1},
		{"rolled back by a statement", doExec("ROLLBACK"), 0},
		{"prepared", doExec("PREPARE TRANSACTION 'a'"), 0},
		{"committed before the connection was closed", func(ctx context.Context, tx pgx.Tx) error {
			return errors.Join(doExec("COMMIT")(ctx, tx), tx.Conn().Close(ctx))
		}, 1},
		{"committed before the connection was lost", func(ctx context.Context, tx pgx.Tx) error {
			err := errors.Join(doExec("COMMIT")(ctx, tx), tx.Conn().PgConn().Conn().Close())
			_, lost := tx.Exec(ctx, "SELECT")
			if lost == nil {
				err = errors.Join(err, errors.New("the connection is still there"))
			}
			return err
		}, 1},
	} {
		for _, errFn := range []error{nil, errors.New("boom"), &pgconn.PgError{Code: "40001"}} {
			for _, cancelled := range []bool{false, true} {
				mustExec(t, pool, "TRUNCATE doc")
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // what was prepared and not committed would block for ever
				runs := 0
				err := g.Do(ctx, "x", 5, func(ctx context.Context, tx pgx.Tx) error {
					runs++
					if err := errors.Join(doExec("INSERT INTO doc VALUES (1)")(ctx, tx), c.end(ctx, tx)); err != nil {
						t.Error(err)
					}
					if cancelled {
						cancel()
					}
					return errFn
				})
				cancel()
				if !errors.Is(err, guard.ErrUnknown) || errFn != nil && !errors.Is(err, errFn) || errFn == nil && !errors.Is(err, pgx.ErrTxClosed) || runs != 1 {
					t.Errorf("%s by fn, which returned %v: %v after %d runs; want ErrUnknown after one", c.name, errFn, err, runs)
				}
				if n := value[int](t, pool, "SELECT count(*) FROM doc"); n != c.stored {
					t.Errorf("%s by fn: %d rows are stored; want %d", c.name, n, c.stored)
				}
				if c.name == "prepared" {
					mustExec(t, pool, "COMMIT PREPARED 'a'")
				}
			}
		}
	}
}

// A connection that was lost before anything was committed leaves nothing unknown.
func TestConnectionLostInsideFnIsNotUnknown(t *testing.T) {
	pool := newPool(t)
	g := newGuard(t, pool, nil)
	mustExec(t, pool, "CREATE TABLE doc (n int)")
	err := g.Do(t.Context(), "x", 5, func(ctx context.Context, tx pgx.Tx) error {
		return errors.Join(doExec("INSERT INTO doc VALUES (1)")(ctx, tx), tx.Conn().Close(ctx))
	})
	if err == nil || errors.Is(err, guard.ErrUnknown) {
		t.Errorf("Do = %v; want an error that is not ErrUnknown", err)
	}
	if n := value[int](t, pool, "SELECT count(*) FROM doc"); n != 0 {
		t.Errorf("%d rows are stored", n)
	}
}

// A refusal inside fn ends the transaction, too, and then it is known what became of it.
func TestRefusalInsideFnIsNotUnknown(t *testing.T) {
	pool := newPool(t)
	g := newGuard(t, pool, nil)
	other := newGuard(t, pool, &pgxguard.Options{Table: "others"})
	mustExec(t, pool, "CREATE TABLE doc (n int)")
	if err := other.Seal(t.Context(), "b", 7); err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		of   func(error) error
		want error
	}{
		"returned": {func(err error) error { return err }, guard.ErrStale},
		"replaced": {func(error) error { return boom }, boom},
		"ignored":  {func(error) error { return nil }, guard.ErrStale},
	} {
		for _, wrap := range []func(pgx.Tx) pgx.Tx{func(tx pgx.Tx) pgx.Tx { return tx }, func(tx pgx.Tx) pgx.Tx { return myTx{tx} }} {
			err := g.Do(t.Context(), "a", 5, func(ctx context.Context, tx pgx.Tx) error {
				if err := doExec("INSERT INTO doc VALUES (1)")(ctx, tx); err != nil {
					t.Error(err)
				}
				return c.of(other.Check(ctx, wrap(tx), "b", 6))
			})
			if !errors.Is(err, c.want) || errors.Is(err, guard.ErrUnknown) {
				t.Errorf("%s: Do = %v; want %v", name, err, c.want)
			}
		}
	}
	// A nested Begin is refused, and an fn that ignores it commits nothing.
	err := g.Do(t.Context(), "a", 5, func(ctx context.Context, tx pgx.Tx) error {
		_ = pgx.BeginFunc(ctx, tx, func(nested pgx.Tx) error { return g.Check(ctx, nested, "c", 5) })
		return nil
	})
	if err == nil || errors.Is(err, guard.ErrUnknown) || !strings.Contains(err.Error(), "savepoint") {
		t.Errorf("nested: Do = %v; want Check's error", err)
	}
	err = g.Do(t.Context(), "a", 5, func(ctx context.Context, tx pgx.Tx) error {
		_, _ = g.Once(ctx, tx, "a", "")
		return nil
	})
	if err == nil || errors.Is(err, guard.ErrUnknown) || !strings.Contains(err.Error(), "operation") {
		t.Errorf("Once's error ignored: Do = %v; want that error", err)
	}
	if n := value[int](t, pool, "SELECT count(*) FROM doc"); n != 0 {
		t.Errorf("%d rows of refused transactions are stored", n)
	}
	// What fn had committed before is stored all the same.
	err = g.Do(t.Context(), "a", 5, func(ctx context.Context, tx pgx.Tx) error {
		if err := errors.Join(doExec("INSERT INTO doc VALUES (1)")(ctx, tx), doExec("COMMIT")(ctx, tx)); err != nil {
			t.Error(err)
		}
		return other.Check(ctx, tx, "b", 6)
	})
	if n := value[int](t, pool, "SELECT count(*) FROM doc"); n != 1 || !errors.Is(err, guard.ErrUnknown) {
		t.Errorf("after a COMMIT: Do = %v, %d rows; want ErrUnknown and 1", err, n)
	}
}

// OnOutcome hears of each operation once, whatever was refused inside it or run again.
func TestOnOutcomeIsCalledOncePerOperation(t *testing.T) {
	pool := newPool(t)
	outcomes := make(map[string][]error)
	g := newGuard(t, pool, &pgxguard.Options{MaxRetries: 2, OnOutcome: func(_ context.Context, resource string, _ guard.Token, err error) {
		outcomes[resource] = append(outcomes[resource], err)
	}})
	conflict := &pgconn.PgError{Code: "40001"}
	for resource, fn := range map[string]func(context.Context, pgx.Tx) error{
		"passes":    doNothing,
		"conflicts": func(context.Context, pgx.Tx) error { return conflict },
		"ended":     doExec("COMMIT"),
		"refused":   func(ctx context.Context, tx pgx.Tx) error { return g.Check(ctx, tx, "inner", 0) },
		"unknown":   func(context.Context, pgx.Tx) error { return guard.ErrUnknown },
	} {
		err := g.Do(t.Context(), resource, 5, fn)
		if got := outcomes[resource]; len(got) != 1 || got[0] != err {
			t.Errorf("%s: outcomes %v; want %v once", resource, got, err)
		}
	}
	if got := outcomes["inner"]; len(got) != 1 || !errors.Is(got[0], guard.ErrNoToken) {
		t.Errorf("inner Check: outcomes %v", got)
	}
	_ = g.Do(t.Context(), "bad", 0, doNothing)
	_ = g.Seal(t.Context(), "sealed", 5)
	for _, r := range []string{"bad", "sealed"} {
		if len(outcomes[r]) != 1 {
			t.Errorf("%s: outcomes %v", r, outcomes[r])
		}
	}
}
