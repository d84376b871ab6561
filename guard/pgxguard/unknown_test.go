package pgxguard_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/pgxguard"
	"github.com/fencedlock/fencedlock/internal/pgtest"
)

// A COMMIT whose reply is lost looks like a failure, and is done twice by whoever runs it again:
// https://github.com/golang/go/issues/11978, https://github.com/lib/pq/issues/939,
// https://github.com/go-sql-driver/mysql/pull/302, https://github.com/cirello-io/pglock/issues/175
func TestLostCommitReplyIsUnknownAndNeverReplayed(t *testing.T) {
	for _, c := range []struct {
		name   string
		fault  pgtest.CommitFault
		stored int // when Do returns
	}{
		{"the reply is lost", pgtest.LoseReply, 1},
		{"the request is lost", pgtest.LoseRequest, 0},
		{"the request is late", pgtest.DelayRequest, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			dsn := pgtest.Schema(t)
			direct := openPool(t, dsn)
			mustExec(t, direct, "CREATE TABLE account (n int)", "INSERT INTO account VALUES (0)")
			proxy, through := pgtest.NewProxy(t, dsn)
			var outcomes []error
			g := newGuard(t, openPool(t, through), &pgxguard.Options{
				OnOutcome: func(_ context.Context, _ string, _ guard.Token, err error) { outcomes = append(outcomes, err) },
			})
			runs := 0
			credit := func(ctx context.Context, tx pgx.Tx) error {
				runs++
				first, err := g.Once(ctx, tx, "account", "credit 4711")
				if err != nil || !first { // the earlier one was stored
					return err
				}
				_, err = tx.Exec(ctx, "UPDATE account SET n = n + 1")
				return err
			}

			hit := proxy.Fail(c.fault)
			err := g.Do(t.Context(), "account", 5, credit)
			if !errors.Is(err, guard.ErrUnknown) || errors.Is(err, guard.ErrStale) {
				t.Errorf("Do = %v; want ErrUnknown", err)
			}
			<-hit
			if runs != 1 || len(outcomes) != 1 || !errors.Is(outcomes[0], guard.ErrUnknown) {
				t.Errorf("fn ran %d times, outcomes %v; want one of each", runs, outcomes)
			}
			if n := value[int](t, direct, "SELECT n FROM account"); n != c.stored {
				t.Errorf("the account says %d; want %d", n, c.stored)
			}

			// The way out that Do's documentation gives. It waits for the earlier transaction, so its answer is final.
			again := make(chan error, 1)
			go func() { again <- newGuard(t, direct, nil).Do(t.Context(), "account", 5, credit) }()
			if c.fault == pgtest.DelayRequest {
				waitForLock(t, direct)
				proxy.Release()
			}
			if err := <-again; err != nil {
				t.Error(err)
			}
			if n := value[int](t, direct, "SELECT n FROM account"); n != 1 {
				t.Errorf("after looking and doing it again the account says %d; want 1", n)
			}
		})
	}
}

// waitForLock returns when a session waits for a lock.
func waitForLock(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); value[int](t, pool, "SELECT count(*) FROM pg_locks WHERE NOT granted") == 0; {
		if time.Now().After(deadline) {
			t.Fatal("nobody waits")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// What is refused at COMMIT, or was never sent, is known not to be stored: calling it unknown would stop people for
// nothing.
func TestCommitThatDidNotHappenIsNotUnknown(t *testing.T) {
	pool := newPool(t)
	g := newGuard(t, pool, nil)
	mustExec(t, pool, "CREATE TABLE doc (n int)", "CREATE TABLE parent (id int PRIMARY KEY)",
		"CREATE TABLE child (id int REFERENCES parent DEFERRABLE INITIALLY DEFERRED)")
	for name, fn := range map[string]func(context.Context, pgx.Tx) error{
		"deferred constraint": doExec("INSERT INTO child VALUES (1)"),
		"a failed statement that fn swallowed": func(ctx context.Context, tx pgx.Tx) error {
			_, _ = tx.Exec(ctx, "SELECT 1/0")
			return nil
		},
		"rows that fn left open": func(ctx context.Context, tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "INSERT INTO doc VALUES (1)"); err != nil {
				return err
			}
			_, err := tx.Query(ctx, "SELECT generate_series(1, 1000000)")
			return err
		},
		"a connection that fn closed": func(ctx context.Context, tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "INSERT INTO doc VALUES (1)"); err != nil {
				return err
			}
			return tx.Conn().Close(ctx)
		},
	} {
		if err := g.Do(t.Context(), name, 5, fn); err == nil || errors.Is(err, guard.ErrUnknown) {
			t.Errorf("%s: %v; want an error that is not ErrUnknown", name, err)
		}
		if high, err := g.Highest(t.Context(), name); high != 0 || err != nil {
			t.Errorf("%s: Highest = %d, %v; want 0", name, high, err)
		}
	}
	if n := value[int](t, pool, "SELECT count(*) FROM doc"); n != 0 {
		t.Errorf("%d rows are stored", n)
	}
}

// When ctx ends while COMMIT is under way, nobody knows.
func TestContextThatEndsDuringCommitLeavesTheOutcomeUnknown(t *testing.T) {
	pool := newPool(t)
	g := newGuard(t, pool, nil)
	mustExec(t, pool, "CREATE TABLE doc (n int)",
		"CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(30); RETURN NULL; END'",
		"CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON doc DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	go func() {
		defer cancel()
		for ctx.Err() == nil {
			var sleeping bool
			err := pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query ILIKE 'commit')").Scan(&sleeping)
			if err != nil || sleeping {
				return
			}
		}
	}()
	err := g.Do(ctx, "x", 5, doExec("INSERT INTO doc VALUES (1)"))
	if !errors.Is(err, guard.ErrUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("Do = %v; want ErrUnknown and context.Canceled", err)
	}
}
