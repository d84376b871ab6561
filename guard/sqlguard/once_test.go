package sqlguard_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/sqlguard"
)

// credit adds 1 to the account unless the operation was done before.
func credit(g *sqlguard.Guard, resource, operation string) func(context.Context, *sql.Tx) error {
	return func(ctx context.Context, tx *sql.Tx) error {
		first, err := g.Once(ctx, tx, resource, operation)
		if err != nil || !first {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE account SET n = n + 1")
		return err
	}
}

func TestOperationHasItsEffectOnceWhoeverRunsIt(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		db := b.open(t)
		g := newGuard(t, db, b.dialect, nil)
		mustExec(t, db, "CREATE TABLE account (n int)", "INSERT INTO account VALUES (0)")
		do := func(tok guard.Token, resource, operation string, want int) {
			t.Helper()
			if err := g.Do(t.Context(), resource, tok, credit(g, resource, operation)); err != nil {
				t.Error(err)
			}
			if n := value[int](t, db, "SELECT n FROM account"); n != want {
				t.Errorf("after %q for %q with %d the account says %d; want %d", operation, resource, tok, n, want)
			}
		}
		do(5, "x", "a", 1)
		do(5, "x", "a", 1) // again
		do(7, "x", "a", 1) // by the next holder
		for i, op := range []string{"A", "a ", " a", "á", "a\u0301", "%", "'", "a\\", strings.Repeat("é", 256), strings.Repeat("x", 512), strings.Repeat("x", 511) + "y"} {
			do(7, "x", op, 2+i)
			do(7, "x", op, 2+i)
		}
		before := value[int](t, db, "SELECT n FROM account")
		do(7, "X", "a", before+1)  // another resource
		do(7, "xa", "b", before+2) // not the same when put together
		do(7, "x", "ab", before+3)

		// Rolled back, so not done.
		boom := errors.New("boom")
		err := g.Do(t.Context(), "x", 7, func(ctx context.Context, tx *sql.Tx) error {
			return errors.Join(credit(g, "x", "rolled back")(ctx, tx), boom)
		})
		if !errors.Is(err, boom) {
			t.Error(err)
		}
		do(7, "x", "rolled back", before+4)
		// Inside one transaction the second is not the first, either.
		err = g.Do(t.Context(), "x", 7, func(ctx context.Context, tx *sql.Tx) error {
			return errors.Join(credit(g, "x", "twice")(ctx, tx), credit(g, "x", "twice")(ctx, tx))
		})
		if n := value[int](t, db, "SELECT n FROM account"); err != nil || n != before+5 {
			t.Errorf("twice in one transaction: %v, the account says %d; want %d", err, n, before+5)
		}
	})
}

// Without Check the record's uniqueness is all there is: the second one waits, and is not the first unless the first one
// rolls back.
func TestConcurrentDuplicatesWaitForEachOther(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		db := b.open(t)
		g := newGuard(t, db, b.dialect, nil)
		for name, end := range map[string]func(*sql.Tx) error{"committed": (*sql.Tx).Commit, "rolled back": (*sql.Tx).Rollback} {
			tx := begin(t, db)
			if first, err := g.Once(t.Context(), tx, "x", name); !first || err != nil {
				t.Fatalf("the first: %v, %v", first, err)
			}
			type answer struct {
				first bool
				err   error
			}
			second := make(chan answer, 1)
			go func() {
				tx, err := db.Begin() // SQLite waits here
				if err != nil {
					second <- answer{err: err}
					return
				}
				first, err := g.Once(context.Background(), tx, "x", name)
				second <- answer{first, errors.Join(err, tx.Commit())}
			}()
			select {
			case a := <-second:
				t.Errorf("%s: did not wait: %+v", name, a)
				continue
			case <-time.After(100 * time.Millisecond):
			}
			if err := end(tx); err != nil {
				t.Fatal(err)
			}
			if a := <-second; a.err != nil || a.first != (name == "rolled back") {
				t.Errorf("after the first was %s: %+v", name, a)
			}
		}
	})
}

func TestManyWritersOfOneOperation(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		for _, level := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelSerializable} {
			db := b.open(t)
			g := newGuard(t, db, b.dialect, &sqlguard.Options{Isolation: level, MaxRetries: 1000})
			mustExec(t, db, "CREATE TABLE account (n int)", "INSERT INTO account VALUES (0)")
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					for _, op := range []string{"a", "b", "c", "d", "e"} {
						// On resources of their own, so that Check does not keep them apart.
						if err := g.Do(t.Context(), t.Name(), 5, credit(g, "shared", op)); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			if n := value[int](t, db, "SELECT n FROM account"); n != 5 {
				t.Errorf("%v: 5 operations had %d effects", level, n)
			}
		}
	})
}

func TestOnceRefusesBadArgumentsAndRollsBack(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		db := b.open(t)
		g := newGuard(t, db, b.dialect, nil)
		for _, c := range []struct{ resource, operation, says string }{
			{"", "a", "name"}, {"x\x00", "a", "name"}, {"x", "", "operation"}, {"x", "a\x00", "operation"}, {"x", "\xff", "operation"},
			{"x", strings.Repeat("x", 513), "operation"}, {strings.Repeat("x", 513), "a", "name"},
		} {
			tx := begin(t, db)
			first, err := g.Once(t.Context(), tx, c.resource, c.operation)
			if first || err == nil || !strings.Contains(err.Error(), c.says) || len(err.Error()) > 200 {
				t.Errorf("Once(%.10q, %.10q) = %v, %v; want an error about the %s", c.resource, c.operation, first, err, c.says)
			}
			if err := tx.Commit(); !errors.Is(err, sql.ErrTxDone) {
				t.Errorf("the transaction goes on: %v", err)
			}
		}
		if first, err := g.Once(t.Context(), nil, "x", "a"); first || err == nil {
			t.Errorf("without a transaction: %v, %v", first, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		tx := begin(t, db)
		if first, err := g.Once(ctx, tx, "x", "a"); first || !errors.Is(err, context.Canceled) {
			t.Errorf("with a cancelled context: %v, %v", first, err)
		}
		mustExec(t, db, "DROP TABLE fencedlock_marks_once")
		if _, err := g.Once(t.Context(), begin(t, db), "x", "a"); err == nil || !strings.Contains(err.Error(), "call Migrate") {
			t.Errorf("without its table: %v", err)
		}
		// A database from before there were operations gets the table.
		if err := g.Migrate(t.Context()); err != nil {
			t.Error(err)
		}
		if first, err := g.Once(t.Context(), begin(t, db), "x", "a"); !first || err != nil {
			t.Errorf("after Migrate: %v, %v", first, err)
		}
	})
}

// A record that a trigger swallows is none: leaving the effects out would lose them.
func TestSwallowedRecordIsNotCalledDone(t *testing.T) {
	for dialect, stmts := range map[sqlguard.Dialect][]string{
		sqlguard.Postgres: {
			"CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
			"CREATE TRIGGER swallow BEFORE INSERT ON fencedlock_marks_once FOR EACH ROW EXECUTE FUNCTION swallow()"},
		sqlguard.SQLite: {"CREATE TRIGGER swallow BEFORE INSERT ON fencedlock_marks_once BEGIN SELECT RAISE(IGNORE); END"},
	} {
		db := backendOf(dialect).open(t)
		g := newGuard(t, db, dialect, nil)
		mustExec(t, db, stmts...)
		first, err := g.Once(t.Context(), begin(t, db), "x", "a")
		if first || err == nil || !strings.Contains(err.Error(), "neither stored nor found") {
			t.Errorf("%v: %v, %v", dialect, first, err)
		}
	}
}

func TestPruneOnceDeletesWhatIsOldByTheDatabasesClock(t *testing.T) {
	age := map[sqlguard.Dialect]string{
		sqlguard.Postgres: "created_at - interval '2 hours'",
		sqlguard.MySQL:    "created_at - INTERVAL 2 HOUR",
		sqlguard.SQLite:   "created_at - 7200000",
	}
	onEach(t, func(t *testing.T, b backend) {
		db := b.open(t)
		g := newGuard(t, db, b.dialect, nil)
		mustExec(t, db, "CREATE TABLE account (n int)", "INSERT INTO account VALUES (0)")
		for _, op := range []string{"old", "new"} {
			if err := g.Do(t.Context(), "x", 5, credit(g, "x", op)); err != nil {
				t.Fatal(err)
			}
		}
		mustExec(t, db, "UPDATE fencedlock_marks_once SET created_at = "+age[b.dialect]+" WHERE operation = 'old'")
		for _, c := range []struct {
			olderThan time.Duration
			deleted   int64
		}{{3 * time.Hour, 0}, {119 * time.Minute, 1}, {time.Hour, 0}, {1<<63 - 1, 0}} {
			if n, err := g.PruneOnce(t.Context(), c.olderThan); n != c.deleted || err != nil {
				t.Errorf("PruneOnce(%v) = %d, %v; want %d", c.olderThan, n, err, c.deleted)
			}
		}
		for op, want := range map[string]int{"new": 2, "old": 3} {
			if err := g.Do(t.Context(), "x", 5, credit(g, "x", op)); err != nil {
				t.Error(err)
			}
			if n := value[int](t, db, "SELECT n FROM account"); op == "old" && n != 3 || n > 3 {
				t.Errorf("after %q again the account says %d; want at most %d", op, n, want)
			}
		}
		for _, d := range []time.Duration{0, -time.Second} {
			if _, err := g.PruneOnce(t.Context(), d); err == nil {
				t.Errorf("PruneOnce(%v) is allowed", d)
			}
		}
		time.Sleep(5 * time.Millisecond) // SQLite counts milliseconds
		if n, err := g.PruneOnce(t.Context(), time.Nanosecond); n != 2 || err != nil {
			t.Errorf("PruneOnce of everything = %d, %v; want 2", n, err)
		}
		if high, err := g.Highest(t.Context(), "x"); high != 5 || err != nil {
			t.Errorf("the mark is %d, %v after pruning; want 5", high, err)
		}
	})
}
