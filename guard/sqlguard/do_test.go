package sqlguard_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/sqlguard"
	"github.com/fencedlock/fencedlock/internal/pgtest"
)

func TestPanicInDoRollsBackAndGoesOn(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		db := b.open(t)
		var outcomes []error
		g := newGuard(t, db, b.dialect, &sqlguard.Options{
			OnOutcome: func(_ context.Context, _ string, _ guard.Token, err error) { outcomes = append(outcomes, err) },
		})
		mustExec(t, db, "CREATE TABLE doc (n int)")
		func() {
			defer func() {
				if p := recover(); p != "boom" {
					t.Errorf("recovered %v; want fn's panic", p)
				}
			}()
			_ = g.Do(t.Context(), "x", 5, func(ctx context.Context, tx *sql.Tx) error {
				if _, err := tx.ExecContext(ctx, "INSERT INTO doc VALUES (1)"); err != nil {
					t.Error(err)
				}
				panic("boom")
			})
		}()
		if n := value[int](t, db, "SELECT count(*) FROM doc"); n != 0 {
			t.Errorf("%d rows of a transaction that panicked are stored", n)
		}
		if len(outcomes) != 1 || outcomes[0] == nil {
			t.Errorf("outcomes %v; want one error", outcomes)
		}
		if n := db.Stats().InUse; n != 0 {
			t.Errorf("%d connections were not given back", n)
		}
	})
}

func TestDoRunsAgainAfterConflictsOnly(t *testing.T) {
	const max = 3
	onEach(t, func(t *testing.T, b backend) {
		db := b.open(t)
		g := newGuard(t, db, b.dialect, &sqlguard.Options{MaxRetries: max})
		mustExec(t, db, "CREATE TABLE doc (n int)")
		conflict := conflictOf(t, b)
		for _, c := range []struct {
			name string
			fail int // so many times
			err  error
			runs int
			ok   bool
		}{
			{"no conflict", 0, nil, 1, true},
			{"a few conflicts", 2, fmt.Errorf("wrapped: %w", conflict), 3, true},
			{"conflicts for ever", 99, conflict, max + 1, false},
			{"another error", 99, errors.New("boom"), 1, false},
			{"an unknown outcome of another guard", 99, errors.Join(guard.ErrUnknown, conflict), 1, false},
		} {
			runs := 0
			err := g.Do(t.Context(), c.name, 5, func(ctx context.Context, tx *sql.Tx) error {
				runs++
				if _, err := tx.ExecContext(ctx, "INSERT INTO doc VALUES (1)"); err != nil {
					return err
				}
				if runs <= c.fail {
					return c.err
				}
				return nil
			})
			if (err == nil) != c.ok || runs != c.runs || !c.ok && !errors.Is(err, c.err) {
				t.Errorf("%s: %v after %d runs; want %d, success %v", c.name, err, runs, c.runs, c.ok)
			}
		}
		if n := value[int](t, db, "SELECT count(*) FROM doc"); n != 2 {
			t.Errorf("%d rows are stored; want one for each success", n)
		}
	})
}

// conflictOf returns an error of the driver's own for a conflict.
func conflictOf(t *testing.T, b backend) error {
	t.Helper()
	var err error
	switch b.dialect {
	case sqlguard.Postgres:
		_, err = b.open(t).Exec("DO $$ BEGIN RAISE SQLSTATE '40001'; END $$")
	case sqlguard.MySQL:
		_, err = b.open(t).Exec("SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213")
	case sqlguard.SQLite:
		dsn := sqliteDSN(t) + "?_txlock=exclusive"
		begin(t, openDB(t, "sqlite", dsn))
		_, err = openDB(t, "sqlite", dsn).Begin()
	}
	if err == nil {
		t.Fatal("no conflict could be had")
	}
	return err
}

// A holder that is paused inside the transaction must not block the next one until it wakes up.
func TestHolderPausedInsideDoIsCutOff(t *testing.T) {
	dsn := pgtest.Schema(t)
	// A stricter limit of the session's own stays, which spares this test five seconds.
	db := openDB(t, "pgx", dsn+"&idle_in_transaction_session_timeout=200")
	g := newGuard(t, db, sqlguard.Postgres, nil)
	mustExec(t, db, "CREATE TABLE doc (n int)")
	inside, leave := make(chan struct{}), make(chan struct{})
	first := make(chan error, 1)
	go func() {
		first <- g.Do(context.Background(), "x", 5, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO doc VALUES (5)")
			close(inside)
			<-leave // the pause
			return err
		})
	}()
	<-inside
	start := time.Now()
	if err := g.Do(t.Context(), "x", 6, doExec("INSERT INTO doc VALUES (6)")); err != nil {
		t.Error(err)
	}
	if d := time.Since(start); d > 4*time.Second {
		t.Errorf("the next holder waited %v", d)
	}
	close(leave)
	if err := <-first; err == nil {
		t.Error("the paused holder was told that its write is stored")
	}
	if n := value[int](t, db, "SELECT sum(n) FROM doc"); n != 6 {
		t.Errorf("the document holds %d; want the next holder's 6 alone", n)
	}
}

func TestDoLimitsIdleTimeForItsTransactionOnly(t *testing.T) {
	const show = "SHOW idle_in_transaction_session_timeout"
	for _, c := range []struct{ session, inside string }{{"0", "5s"}, {"3600000", "5s"}, {"5001", "5s"}, {"1500", "1500ms"}, {"5000", "5s"}} {
		db := openDB(t, "pgx", pgtest.Schema(t)+"&idle_in_transaction_session_timeout="+c.session)
		db.SetMaxOpenConns(1)
		before := value[string](t, db, show)
		g := newGuard(t, db, sqlguard.Postgres, nil)
		err := g.Do(t.Context(), "x", 5, func(ctx context.Context, tx *sql.Tx) error {
			var got string
			if err := tx.QueryRowContext(ctx, show).Scan(&got); err != nil {
				return err
			}
			if got != c.inside {
				t.Errorf("session %s: %s inside Do; want %s", c.session, got, c.inside)
			}
			return nil
		})
		if after := value[string](t, db, show); err != nil || after != before {
			t.Errorf("session %s: %s after Do; want %s (%v)", c.session, after, before, err)
		}
	}
}

// ctx governs the wait for the row, fn, and what is between fn and COMMIT; nothing of it is unknown.
func TestContextEndsDoBeforeCommit(t *testing.T) {
	cause := errors.New("the lock was lost")
	onEach(t, func(t *testing.T, b backend) {
		db := b.open(t)
		g := newGuard(t, db, b.dialect, nil)
		mustExec(t, db, "CREATE TABLE doc (n int)")
		for name, wait := range map[string]bool{"as fn returns": false, "while fn waits": true} {
			ctx, cancel := context.WithCancelCause(t.Context())
			err := g.Do(ctx, "x", 5, func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "INSERT INTO doc VALUES (1)")
				cancel(cause)
				if wait {
					<-ctx.Done()
					return ctx.Err()
				}
				return err
			})
			if !errors.Is(err, context.Canceled) || !errors.Is(err, cause) || errors.Is(err, guard.ErrUnknown) {
				t.Errorf("%s: %v; want context.Canceled and its cause, known", name, err)
			}
		}
		if n := value[int](t, db, "SELECT count(*) FROM doc"); n != 0 {
			t.Errorf("%d rows are stored", n)
		}

		// While another holder has the row.
		err := g.Do(t.Context(), "x", 5, func(context.Context, *sql.Tx) error {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			err := g.Do(ctx, "x", 6, func(context.Context, *sql.Tx) error { t.Error("two at once"); return nil })
			if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, guard.ErrUnknown) {
				t.Errorf("waiting for the row: %v; want DeadlineExceeded, known", err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		if high, err := g.Highest(t.Context(), "x"); high != 5 || err != nil {
			t.Errorf("Highest = %d, %v; want 5", high, err)
		}
	})
}
