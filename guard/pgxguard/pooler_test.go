package pgxguard_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/guardtest"
	"github.com/fencedlock/fencedlock/guard/pgxguard"
	"github.com/fencedlock/fencedlock/guard/sqlguard"
	"github.com/fencedlock/fencedlock/internal/pgtest"
)

// A pooler in transaction mode hands a session to somebody else between two transactions, with the locks and prepared
// statements that are left in it: https://github.com/goauthentik/authentik/issues/23876,
// https://github.com/pgbouncer/pgbouncer/issues/102
func TestGuardsWorkBehindPgBouncerInTransactionMode(t *testing.T) {
	const sessions = 4
	dsn := pgtest.Database(t)
	bouncer := pgtest.NewBouncer(t, dsn, sessions)
	direct := openPool(t, dsn)
	for _, mode := range []string{"exec", "cache_describe", "describe_exec", "simple_protocol"} {
		through := bouncer + "&default_query_exec_mode=" + mode
		fresh := func(t *testing.T) {
			mustExec(t, direct, "DROP TABLE IF EXISTS kv, fencedlock_marks, fencedlock_marks_once")
			t.Cleanup(func() { leavesNothing(t, bouncer, sessions) })
		}
		t.Run("pgxguard "+mode, func(t *testing.T) {
			guardtest.Run(t, func(t *testing.T) guardtest.Store {
				fresh(t)
				s := kvStore(t, direct, newGuard(t, openPool(t, through), &pgxguard.Options{Isolation: pgx.RepeatableRead}))
				s.Without = triedElsewhere
				return s
			})
		})
		if mode == "describe_exec" {
			continue // sqlguard leaves the mode to the driver, and this one fails outside of a transaction
		}
		t.Run("sqlguard "+mode, func(t *testing.T) {
			guardtest.Run(t, func(t *testing.T) guardtest.Store {
				fresh(t)
				db, err := sql.Open("pgx", through)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = db.Close() })
				g, err := sqlguard.New(db, sqlguard.Postgres, &sqlguard.Options{Isolation: sql.LevelRepeatableRead})
				if err == nil {
					err = g.Migrate(t.Context())
				}
				if err != nil {
					t.Fatal(err)
				}
				s := kvStore(t, direct, nil)
				s.Sealer, s.Without = g, triedElsewhere
				exec := func(query string) func(ctx context.Context, resource string, tok guard.Token, args ...any) error {
					return func(ctx context.Context, resource string, tok guard.Token, args ...any) error {
						return g.Do(ctx, resource, tok, func(ctx context.Context, tx *sql.Tx) error {
							_, err := tx.ExecContext(ctx, query, append([]any{resource}, args...)...)
							return err
						})
					}
				}
				write := exec("INSERT INTO kv VALUES ($1, $2) ON CONFLICT (resource) DO UPDATE SET value = excluded.value")
				s.Write = func(ctx context.Context, resource string, tok guard.Token, value string) error {
					return write(ctx, resource, tok, value)
				}
				del := exec("DELETE FROM kv WHERE resource = $1")
				s.Delete = func(ctx context.Context, resource string, tok guard.Token) error { return del(ctx, resource, tok) }
				return s
			})
		})
	}
}

// leavesNothing looks at the sessions of the pooler for what a later client could stumble over.
func leavesNothing(t *testing.T, bouncer string, sessions int) {
	t.Helper()
	pool := openPool(t, bouncer+"&default_query_exec_mode=exec")
	for range 3 * sessions {
		var pid, locks, statements int
		var limit string
		err := pool.QueryRow(context.Background(), `SELECT pg_backend_pid(), (SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'),
			(SELECT count(*) FROM pg_prepared_statements WHERE statement ILIKE '%fencedlock%'), current_setting('idle_in_transaction_session_timeout')`).
			Scan(&pid, &locks, &statements, &limit)
		if err != nil {
			t.Fatal(err)
		}
		if locks != 0 || statements != 0 || limit != "0" {
			t.Errorf("session %d was left with %d advisory locks, %d prepared statements, an idle limit of %s", pid, locks, statements, limit)
		}
	}
}

// The same pooler does break what rests on a session, so it would show a guard that does.
func TestPgBouncerBreaksWhatRestsOnASession(t *testing.T) {
	pool := openPool(t, pgtest.NewBouncer(t, pgtest.Database(t), 2)+"&default_query_exec_mode=exec")
	var txs [2]pgx.Tx
	for i := range txs { // both at once, so that there are two sessions
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(context.Background()) }()
		txs[i] = tx
	}
	for _, tx := range txs {
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if !value[bool](t, pool, "SELECT pg_try_advisory_lock(1)") {
		t.Fatal("the lock is taken")
	}
	if value[bool](t, pool, "SELECT pg_advisory_unlock(1)") {
		t.Error("the same session served two calls, so this pooler shows nothing")
	}
}
