package sqlguard_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/sqlguard"
)

// A mark that is compared in the program and then written without a condition goes back, in READ COMMITTED and, when the
// comparison is outside the transaction, in every isolation level:
// https://github.com/proteanhq/protean/issues/1087, https://github.com/ept/hermitage/issues/19,
// https://github.com/jackc/pgx/issues/2452
func TestHistoryNeverGoesBackInAnyIsolationLevel(t *testing.T) {
	levels := map[sqlguard.Dialect][]sql.IsolationLevel{
		sqlguard.Postgres: {sql.LevelDefault, sql.LevelReadUncommitted, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSnapshot, sql.LevelSerializable},
		sqlguard.MySQL:    {sql.LevelDefault, sql.LevelReadUncommitted, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable},
		sqlguard.SQLite:   {sql.LevelDefault, sql.LevelSerializable},
	}
	onEach(t, func(t *testing.T, b backend) {
		for _, level := range levels[b.dialect] {
			t.Run(level.String(), func(t *testing.T) {
				db := b.open(t)
				g := newGuard(t, db, b.dialect, &sqlguard.Options{Isolation: level, MaxRetries: 1000})
				r := startRace(t, db, b)
				accepted := r.run(t, func(ctx context.Context, tok guard.Token) error {
					return g.Do(ctx, "doc", tok, r.write(tok))
				})
				if back := r.goneBack(t); back != 0 {
					t.Errorf("the history of %d writes goes back %d times", accepted, back)
				}
				high, err := g.Highest(t.Context(), "doc")
				if got := value[int64](t, db, "SELECT token FROM doc"); err != nil || got != int64(high) {
					t.Errorf("the document is of token %d, the mark %d, %v", got, high, err)
				}
				if n := value[int64](t, db, "SELECT n FROM doc"); n != accepted {
					t.Errorf("%d writes were accepted and %d applied", accepted, n)
				}
				if n := value[int64](t, db, "SELECT checks FROM fencedlock_marks WHERE resource = 'doc'"); n != accepted {
					t.Errorf("%d checks were counted of %d", n, accepted)
				}
			})
		}
	})
}

// The same race with a plain read before the write, to see that it would be found.
func TestPlainReadBeforeTheWriteLosesTheRace(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		db := b.open(t)
		g := newGuard(t, db, b.dialect, nil)
		back := 0
		for try := 0; back == 0 && try < 20; try++ {
			r := startRace(t, db, b)
			r.run(t, func(ctx context.Context, tok guard.Token) error {
				high, err := g.Highest(ctx, "doc")
				if err != nil {
					return err
				}
				if err := guard.Check("doc", tok, high); err != nil {
					return err
				}
				tx, err := db.BeginTx(ctx, nil)
				if err != nil {
					return err
				}
				defer func() { _ = tx.Rollback() }()
				if err := r.write(tok)(ctx, tx); err != nil {
					return err
				}
				mark := `INSERT INTO fencedlock_marks VALUES ('doc', $1, 1) ON CONFLICT (resource) DO UPDATE SET token = excluded.token`
				if b.dialect == sqlguard.MySQL {
					mark = `REPLACE INTO fencedlock_marks VALUES ('doc', ?, 1)`
				}
				if _, err := tx.ExecContext(ctx, mark, int64(tok)); err != nil {
					return err
				}
				return tx.Commit()
			})
			back = r.goneBack(t)
		}
		if back == 0 {
			t.Error("no violation in 20 runs: the race is none, so the test of the guard shows nothing")
		}
	})
}

// race is 8 writers with rising tokens at one document; the history is kept in the same transactions.
type race struct {
	db *sql.DB
	b  backend
}

func startRace(t *testing.T, db *sql.DB, b backend) race {
	t.Helper()
	mustExec(t, db, "DROP TABLE IF EXISTS log", "DROP TABLE IF EXISTS doc",
		"CREATE TABLE log (id "+b.serial+" PRIMARY KEY, token bigint)",
		"CREATE TABLE doc (token bigint, n bigint)", "INSERT INTO doc VALUES (0, 0)",
		"DELETE FROM fencedlock_marks WHERE resource = 'doc'")
	return race{db, b}
}

func (r race) write(tok guard.Token) func(context.Context, *sql.Tx) error {
	return func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, r.b.sql("UPDATE doc SET token = $1, n = n + 1"), int64(tok)); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, r.b.sql("INSERT INTO log (token) VALUES ($1)"), int64(tok))
		return err
	}
}

// run returns the number of accepted writes. A writer is refused or accepted; anything else fails the test.
func (r race) run(t *testing.T, write func(ctx context.Context, tok guard.Token) error) int64 {
	t.Helper()
	var (
		wg             sync.WaitGroup
		next, accepted atomic.Int64
	)
	for range 8 {
		wg.Go(func() {
			for range 15 {
				switch err := write(t.Context(), guard.Token(next.Add(1))); {
				case err == nil:
					accepted.Add(1)
				case !errors.Is(err, guard.ErrStale):
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if accepted.Load() == 0 {
		t.Error("no write was accepted")
	}
	return accepted.Load()
}

// goneBack counts the entries of the log with a lower token than the one before. The mark's row is locked while an entry
// is made, so their numbers are the order of the transactions.
func (r race) goneBack(t *testing.T) int {
	t.Helper()
	rows, err := r.db.Query("SELECT token FROM log ORDER BY id")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	back, last := 0, int64(0)
	for rows.Next() {
		var tok int64
		if err := rows.Scan(&tok); err != nil {
			t.Fatal(err)
		}
		if tok < last {
			back++
		}
		last = tok
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return back
}
