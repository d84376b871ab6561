package sqlguard_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/guardtest"
	"github.com/fencedlock/fencedlock/guard/sqlguard"
	"github.com/fencedlock/fencedlock/internal/pgtest"
)

// A lock that lives in a session is stranded when a pooler hands the session to somebody else:
// https://github.com/goauthentik/authentik/issues/23876, https://github.com/pgbouncer/pgbouncer/issues/102
func TestGuardLeavesNothingInASessionThatAPoolerSharesOut(t *testing.T) {
	const sessions = 4
	dsn := pgtest.Database(t)
	direct := openDB(t, "pgx", dsn)

	t.Run("advisory locks do", func(t *testing.T) {
		db := openDB(t, "pgx", pgtest.NewPooler(t, dsn, sessions))
		if !value[bool](t, db, "SELECT pg_try_advisory_lock(1)") {
			t.Fatal("the lock is taken")
		}
		if value[bool](t, db, "SELECT pg_advisory_unlock(1)") {
			t.Error("the same session served two calls, so this pooler shows nothing")
		}
	})

	t.Run("the guard does not", func(t *testing.T) {
		guardtest.Run(t, func(t *testing.T) guardtest.Store {
			mustExec(t, direct, "DROP TABLE IF EXISTS kv, fencedlock_marks, fencedlock_marks_once")
			db := openDB(t, "pgx", pgtest.NewPooler(t, dsn, sessions))
			g := newGuard(t, db, sqlguard.Postgres, &sqlguard.Options{Isolation: sql.LevelRepeatableRead})
			s := kvStore(t, postgresql, db, g)
			s.Without = map[guardtest.Capability]string{
				guardtest.Restart:     "tried without the pooler",
				guardtest.LoseReply:   "tried without the pooler",
				guardtest.LoseRequest: "tried without the pooler",
			}
			t.Cleanup(func() {
				for range sessions {
					if got := value[string](t, db, "SHOW idle_in_transaction_session_timeout"); got != "0" {
						t.Errorf("a session was left with a limit of %s", got)
					}
				}
				if n := value[int](t, direct, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"); n != 0 {
					t.Errorf("%d advisory locks are left", n)
				}
			})
			return s
		})
	})

	t.Run("check and write share a transaction", func(t *testing.T) {
		mustExec(t, direct, "DROP TABLE IF EXISTS kv, fencedlock_marks, fencedlock_marks_once", "CREATE TABLE kv (check_pid int, write_pid int)")
		db := openDB(t, "pgx", pgtest.NewPooler(t, dsn, sessions))
		g := newGuard(t, db, sqlguard.Postgres, nil)
		seen := make(map[int]bool)
		for i := range 2 * sessions {
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := g.Check(t.Context(), tx, "r", guard.Token(1+i)); err != nil {
				t.Fatal(err)
			}
			var pid, holder int
			if err := tx.QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
				t.Fatal(err)
			}
			// The one who holds the mark's row is the one who writes.
			err = direct.QueryRowContext(context.Background(), "SELECT pid FROM pg_locks WHERE relation = 'fencedlock_marks'::regclass AND mode = 'RowExclusiveLock'").Scan(&holder)
			if err != nil || holder != pid {
				t.Errorf("the mark is held by %d and written by %d, %v", holder, pid, err)
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			seen[pid] = true
		}
		if len(seen) < 2 {
			t.Errorf("all transactions ran in %d session, so this pooler shows nothing", len(seen))
		}
	})
}
