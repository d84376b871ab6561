package pgxguard_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/pgxguard"
	"github.com/fencedlock/fencedlock/internal/pgtest"
)

// A holder passes its last look at the lock, is paused, and writes when it wakes up:
// https://github.com/etcd-io/etcd/issues/10811, https://jepsen.io/blog/2020-01-30-etcd-3.4.3,
// https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html
func TestPausedHolderCannotOverwriteItsSuccessor(t *testing.T) {
	pool := newPool(t)
	g := newGuard(t, pool, nil)
	mustExec(t, pool, "CREATE TABLE doc (body text)", "INSERT INTO doc VALUES ('empty')")
	const first, second guard.Token = 5, 7
	const write = "UPDATE doc SET body = $1"

	looked, resume := make(chan struct{}), make(chan struct{})
	late := make(chan error, 1)
	go func() {
		// Here its process looks whether it holds the lock. It does.
		close(looked)
		<-resume // the pause
		late <- g.Do(context.Background(), "x", first, doExec(write, "of the first holder"))
	}()
	<-looked
	if err := g.Do(t.Context(), "x", second, doExec(write, "of the second holder")); err != nil {
		t.Error(err)
	}
	close(resume)
	err := <-late
	var stale *guard.StaleError
	if !errors.As(err, &stale) || *stale != (guard.StaleError{Resource: "x", Token: first, Highest: second}) {
		t.Errorf("the late write: %v; want a StaleError with both tokens", err)
	}
	if got := value[string](t, pool, "SELECT body FROM doc"); got != "of the second holder" {
		t.Errorf("the document is %q", got)
	}
	// The same without a guard, to see that it is the guard that helps.
	if _, err := pool.Exec(t.Context(), write, "of the first holder"); err != nil {
		t.Fatal(err)
	}
	if got := value[string](t, pool, "SELECT body FROM doc"); got != "of the first holder" {
		t.Errorf("without the guard the document is %q; it should be corrupt", got)
	}
}

// Everything that pgx can do inside a transaction is guarded by it: with a stale token nothing of it is stored.
func TestBatchCopyLargeObjectsAndNestedTransactionsInsideDo(t *testing.T) {
	pool := openPool(t, pgtest.Database(t)) // large objects are in no schema
	g := newGuard(t, pool, nil)
	mustExec(t, pool, "CREATE TABLE doc (n int)")
	work := func(ctx context.Context, tx pgx.Tx) error {
		b := &pgx.Batch{}
		for n := range 3 {
			b.Queue("INSERT INTO doc VALUES ($1)", n)
		}
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return fmt.Errorf("batch: %w", err)
		}
		if n, err := tx.CopyFrom(ctx, pgx.Identifier{"doc"}, []string{"n"}, pgx.CopyFromRows([][]any{{10}, {11}})); err != nil || n != 2 {
			return fmt.Errorf("copy: %d, %w", n, err)
		}
		for _, err := range []error{nil, errors.New("boom")} {
			got := pgx.BeginFunc(ctx, tx, func(nested pgx.Tx) error {
				if _, err := nested.Exec(ctx, "INSERT INTO doc VALUES (20)"); err != nil {
					return err
				}
				return err
			})
			if got != err {
				return fmt.Errorf("nested: %w", got)
			}
		}
		los := tx.LargeObjects()
		if _, err := los.Create(ctx, 4711); err != nil {
			return fmt.Errorf("large object: %w", err)
		}
		return nil
	}
	if err := g.Do(t.Context(), "x", 7, work); err != nil {
		t.Fatal(err)
	}
	stored := func() [2]int {
		return [2]int{value[int](t, pool, "SELECT count(*) FROM doc"), value[int](t, pool, "SELECT count(*) FROM pg_largeobject_metadata")}
	}
	if got := stored(); got != [2]int{6, 1} {
		t.Errorf("rows and large objects: %v; want 6 and 1", got)
	}
	if err := g.Do(t.Context(), "x", 6, work); !errors.Is(err, guard.ErrStale) {
		t.Errorf("with a stale token: %v", err)
	}
	if got := stored(); got != [2]int{6, 1} {
		t.Errorf("after a stale one: %v; want 6 and 1", got)
	}
}

func TestPanicInDoRollsBackAndGoesOn(t *testing.T) {
	pool := newPool(t)
	var outcomes []error
	g := newGuard(t, pool, &pgxguard.Options{
		OnOutcome: func(_ context.Context, _ string, _ guard.Token, err error) { outcomes = append(outcomes, err) },
	})
	mustExec(t, pool, "CREATE TABLE doc (n int)")
	for name, open := range map[string]bool{"between statements": false, "with rows open": true} {
		outcomes = nil
		func() {
			defer func() {
				if p := recover(); p != "boom" {
					t.Errorf("%s: recovered %v; want fn's panic", name, p)
				}
			}()
			_ = g.Do(t.Context(), "x", 5, func(ctx context.Context, tx pgx.Tx) error {
				if _, err := tx.Exec(ctx, "INSERT INTO doc VALUES (1)"); err != nil {
					t.Error(err)
				}
				if open {
					if _, err := tx.Query(ctx, "SELECT generate_series(1, 1000000)"); err != nil {
						t.Error(err)
					}
				}
				panic("boom")
			})
		}()
		if n := value[int](t, pool, "SELECT count(*) FROM doc"); n != 0 {
			t.Errorf("%s: %d rows of a transaction that panicked are stored", name, n)
		}
		if len(outcomes) != 1 || outcomes[0] == nil {
			t.Errorf("%s: outcomes %v; want one error", name, outcomes)
		}
		if n := pool.Stat().AcquiredConns(); n != 0 {
			t.Errorf("%s: %d connections were not given back", name, n)
		}
	}
}

func TestDoRunsAgainAfterConflictsOnly(t *testing.T) {
	const max = 3
	pool := newPool(t)
	g := newGuard(t, pool, &pgxguard.Options{MaxRetries: max})
	mustExec(t, pool, "CREATE TABLE doc (n int)")
	_, conflict := pool.Exec(t.Context(), "DO $$ BEGIN RAISE SQLSTATE '40001'; END $$")
	if conflict == nil {
		t.Fatal("no conflict could be had")
	}
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
		err := g.Do(t.Context(), c.name, 5, func(ctx context.Context, tx pgx.Tx) error {
			runs++
			if _, err := tx.Exec(ctx, "INSERT INTO doc VALUES (1)"); err != nil {
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
	if n := value[int](t, pool, "SELECT count(*) FROM doc"); n != 2 {
		t.Errorf("%d rows are stored; want one for each success", n)
	}
}

// A holder that is paused inside the transaction must not block the next one until it wakes up.
func TestHolderPausedInsideDoIsCutOff(t *testing.T) {
	// A stricter limit of the session's own stays, which spares this test five seconds.
	pool := openPool(t, pgtest.Schema(t)+"&idle_in_transaction_session_timeout=200")
	g := newGuard(t, pool, nil)
	mustExec(t, pool, "CREATE TABLE doc (n int)")
	inside, leave := make(chan struct{}), make(chan struct{})
	first := make(chan error, 1)
	go func() {
		first <- g.Do(context.Background(), "x", 5, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO doc VALUES (5)")
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
	if n := value[int](t, pool, "SELECT sum(n) FROM doc"); n != 6 {
		t.Errorf("the document holds %d; want the next holder's 6 alone", n)
	}
}

func TestDoLimitsIdleTimeForItsTransactionOnly(t *testing.T) {
	const show = "SHOW idle_in_transaction_session_timeout"
	for _, c := range []struct{ session, inside string }{{"0", "5s"}, {"3600000", "5s"}, {"1500", "1500ms"}} {
		pool := openPool(t, pgtest.Schema(t)+"&pool_max_conns=1&idle_in_transaction_session_timeout="+c.session)
		before := value[string](t, pool, show)
		g := newGuard(t, pool, nil)
		err := g.Do(t.Context(), "x", 5, func(ctx context.Context, tx pgx.Tx) error {
			var got string
			if err := tx.QueryRow(ctx, show).Scan(&got); err != nil {
				return err
			}
			if got != c.inside {
				t.Errorf("session %s: %s inside Do; want %s", c.session, got, c.inside)
			}
			return nil
		})
		if after := value[string](t, pool, show); err != nil || after != before {
			t.Errorf("session %s: %s after Do; want %s (%v)", c.session, after, before, err)
		}
	}
}

func TestDoBeginsInTheChosenIsolationLevel(t *testing.T) {
	pool := newPool(t)
	for _, level := range []pgx.TxIsoLevel{pgx.ReadUncommitted, pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		g := newGuard(t, pool, &pgxguard.Options{Isolation: level})
		err := g.Do(t.Context(), "x", 5, func(ctx context.Context, tx pgx.Tx) error {
			var got string
			err := tx.QueryRow(ctx, "SHOW transaction_isolation").Scan(&got)
			if got != string(level) {
				t.Errorf("%s inside Do; want %s", got, level)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// ctx governs the wait for the row, fn, and what is between fn and COMMIT; nothing of it is unknown.
func TestContextEndsDoBeforeCommit(t *testing.T) {
	cause := errors.New("the lock was lost")
	pool := newPool(t)
	g := newGuard(t, pool, nil)
	mustExec(t, pool, "CREATE TABLE doc (n int)")
	conns := pool.Stat().NewConnsCount()
	for name, wait := range map[string]bool{"as fn returns": false, "while fn waits": true} {
		ctx, cancel := context.WithCancelCause(t.Context())
		err := g.Do(ctx, "x", 5, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO doc VALUES (1)")
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
	if n := value[int](t, pool, "SELECT count(*) FROM doc"); n != 0 {
		t.Errorf("%d rows are stored", n)
	}
	if n := pool.Stat().NewConnsCount() - conns; n != 0 {
		t.Errorf("%d connections were lost, though nothing was under way on them", n)
	}
	// While another holder has the row.
	err := g.Do(t.Context(), "x", 5, func(context.Context, pgx.Tx) error {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		err := g.Do(ctx, "x", 6, func(context.Context, pgx.Tx) error { t.Error("two at once"); return nil })
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
}
