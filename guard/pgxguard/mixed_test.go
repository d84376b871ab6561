package pgxguard_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/pgxguard"
	"github.com/fencedlock/fencedlock/guard/sqlguard"
	"github.com/fencedlock/fencedlock/internal/pgtest"
)

// openBoth returns both guards on one database, each with a pool of its own as in two programs.
func openBoth(t *testing.T, dsn string, pgxOptions *pgxguard.Options, sqlOptions *sqlguard.Options) (*pgxpool.Pool, *pgxguard.Guard, *sqlguard.Guard) {
	t.Helper()
	pool := openPool(t, dsn)
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	s, err := sqlguard.New(db, sqlguard.Postgres, sqlOptions)
	if err == nil {
		err = s.Migrate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return pool, newGuard(t, pool, pgxOptions), s
}

// While a program moves from database/sql to pgx, both kinds hold the same locks and write the same data.
// A mark that is compared in the program and then written without a condition goes back:
// https://github.com/proteanhq/protean/issues/1087, https://github.com/jackc/pgx/issues/2452
func TestBothKindsOfProgramGuardOneResource(t *testing.T) {
	for _, level := range []pgx.TxIsoLevel{"", pgx.RepeatableRead, pgx.Serializable} {
		t.Run("isolation="+string(level), func(t *testing.T) {
			levels := map[pgx.TxIsoLevel]sql.IsolationLevel{pgx.RepeatableRead: sql.LevelRepeatableRead, pgx.Serializable: sql.LevelSerializable}
			pool, p, s := openBoth(t, pgtest.Schema(t),
				&pgxguard.Options{Isolation: level, MaxRetries: 1000}, &sqlguard.Options{Isolation: levels[level], MaxRetries: 1000})
			mustExec(t, pool, "CREATE TABLE log (id bigserial PRIMARY KEY, token bigint, kind text)",
				"CREATE TABLE doc (token bigint, n bigint)", "INSERT INTO doc VALUES (0, 0)")
			const update, note = "UPDATE doc SET token = $1, n = n + 1", "INSERT INTO log (token, kind) VALUES ($1, $2)"
			kinds := []func(guard.Token) error{
				func(tok guard.Token) error {
					return p.Do(t.Context(), "doc", tok, func(ctx context.Context, tx pgx.Tx) error {
						b := &pgx.Batch{}
						b.Queue(update, int64(tok))
						b.Queue(note, int64(tok), "pgx")
						return tx.SendBatch(ctx, b).Close()
					})
				},
				func(tok guard.Token) error {
					return s.Do(t.Context(), "doc", tok, func(ctx context.Context, tx *sql.Tx) error {
						if _, err := tx.ExecContext(ctx, update, int64(tok)); err != nil {
							return err
						}
						_, err := tx.ExecContext(ctx, note, int64(tok), "sql")
						return err
					})
				},
			}
			var (
				wg             sync.WaitGroup
				next, accepted atomic.Int64
			)
			for w := range 8 {
				wg.Go(func() {
					for range 25 {
						switch err := kinds[w%2](guard.Token(next.Add(1))); {
						case err == nil:
							accepted.Add(1)
						case !errors.Is(err, guard.ErrStale):
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()

			// The mark's row is locked while an entry is made, so their numbers are the order of the transactions.
			if n := value[int](t, pool, "SELECT count(*) FROM (SELECT token < lag(token) OVER (ORDER BY id) AS back FROM log) h WHERE back"); n != 0 {
				t.Errorf("the history of %d writes goes back %d times", accepted.Load(), n)
			}
			if n := value[int](t, pool, "SELECT count(DISTINCT kind) FROM log"); n != 2 {
				t.Errorf("%d kinds of program wrote; want both", n)
			}
			if n := value[int64](t, pool, "SELECT n FROM doc"); n != accepted.Load() || n == 0 {
				t.Errorf("%d writes were accepted and %d applied", accepted.Load(), n)
			}
			token := value[int64](t, pool, "SELECT token FROM doc")
			for name, g := range map[string]guard.Sealer{"pgxguard": p, "sqlguard": s} {
				if high, err := g.Highest(t.Context(), "doc"); err != nil || int64(high) != token {
					t.Errorf("%s: Highest = %d, %v; the document is of token %d", name, high, err, token)
				}
			}
		})
	}
}

// Marks, records and protection of one kind are those of the other.
func TestBothKindsOfProgramShareMarksRecordsAndProtection(t *testing.T) {
	pool, p, s := openBoth(t, pgtest.Schema(t), nil, nil)
	mustExec(t, pool, "CREATE TABLE doc (n int)")
	if err := p.Protect(t.Context(), "doc", "x"); err != nil {
		t.Fatal(err)
	}
	if err := s.Protect(t.Context(), "doc", "x"); err != nil {
		t.Errorf("protected by one, again by the other: %v", err)
	}
	onceSQL := func(ctx context.Context, tx *sql.Tx) error {
		first, err := s.Once(ctx, tx, "x", "op")
		if err == nil && first {
			_, err = tx.ExecContext(ctx, "INSERT INTO doc VALUES (1)")
		}
		return err
	}
	oncePgx := func(ctx context.Context, tx pgx.Tx) error {
		first, err := p.Once(ctx, tx, "x", "op")
		if err == nil && first {
			_, err = tx.Exec(ctx, "INSERT INTO doc VALUES (1)")
		}
		return err
	}
	for _, err := range []error{s.Do(t.Context(), "x", 5, onceSQL), p.Do(t.Context(), "x", 6, oncePgx)} {
		if err != nil {
			t.Error(err)
		}
	}
	if n := value[int](t, pool, "SELECT count(*) FROM doc"); n != 1 {
		t.Errorf("one operation had %d effects", n)
	}
	if err := s.Seal(t.Context(), "x", 5); !errors.Is(err, guard.ErrStale) {
		t.Errorf("sqlguard after pgxguard's mark: %v", err)
	}
	for m, err := range s.Marks(t.Context()) {
		if err != nil || pgxguard.Mark(m) != (pgxguard.Mark{Resource: "x", Token: 6, Checks: 2}) {
			t.Errorf("mark %+v, %v", m, err)
		}
	}
	if p.Schema() != s.Schema() {
		t.Error("the schemas differ")
	}
}
