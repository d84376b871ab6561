package sqlguard_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/guardtest"
	"github.com/fencedlock/fencedlock/guard/sqlguard"
	"github.com/fencedlock/fencedlock/internal/mariadbtest"
	"github.com/fencedlock/fencedlock/internal/pgtest"
)

// kvStore is the suite's view of a guarded table with a value for each resource.
func kvStore(t *testing.T, b backend, db *sql.DB, g *sqlguard.Guard) guardtest.Store {
	t.Helper()
	mustExec(t, db, "CREATE TABLE kv (resource "+b.key+" PRIMARY KEY, value "+b.text+")")
	return guardtest.Store{
		Sealer: g,
		Write: func(ctx context.Context, resource string, tok guard.Token, value string) error {
			return g.Do(ctx, resource, tok, b.put(resource, value))
		},
		Read: func(ctx context.Context, resource string) (string, error) {
			var v string
			err := db.QueryRowContext(ctx, b.sql("SELECT value FROM kv WHERE resource = $1"), resource).Scan(&v)
			if errors.Is(err, sql.ErrNoRows) {
				err = nil
			}
			return v, err
		},
		Delete: func(ctx context.Context, resource string, tok guard.Token) error {
			return g.Do(ctx, resource, tok, doExec(b.sql("DELETE FROM kv WHERE resource = $1"), resource))
		},
	}
}

func (b backend) put(resource, value string) func(context.Context, *sql.Tx) error {
	if b.dialect == sqlguard.MySQL {
		return doExec("REPLACE INTO kv VALUES (?, ?)", resource, value)
	}
	return doExec("INSERT INTO kv VALUES ($1, $2) ON CONFLICT (resource) DO UPDATE SET value = excluded.value", resource, value)
}

var postgresql = backendOf(sqlguard.Postgres)

func TestPostgresPassesTheSuite(t *testing.T) {
	for _, level := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelSerializable} {
		t.Run(level.String(), func(t *testing.T) {
			// One check kills the server, so it is not the shared one.
			own := pgtest.Start(t, false)
			dsn := own.Database(t)
			guardtest.Run(t, func(t *testing.T) guardtest.Store {
				proxy, through := pgtest.NewProxy(t, dsn)
				opts := &sqlguard.Options{Isolation: level}
				db := openDB(t, "pgx", dsn)
				mustExec(t, db, "DROP TABLE IF EXISTS kv, fencedlock_marks, fencedlock_marks_once")
				s := kvStore(t, postgresql, db, newGuard(t, db, sqlguard.Postgres, opts))
				lossy := newGuard(t, openDB(t, "pgx", through), sqlguard.Postgres, opts)
				losing := func(fault pgtest.CommitFault) func(context.Context, string, guard.Token, string) error {
					return func(ctx context.Context, resource string, tok guard.Token, value string) error {
						hit := proxy.Fail(fault)
						err := lossy.Do(ctx, resource, tok, postgresql.put(resource, value))
						select {
						case <-hit:
						case <-time.After(10 * time.Second):
							t.Error("no COMMIT came")
						}
						return err
					}
				}
				s.LoseReply, s.LoseRequest = losing(pgtest.LoseReply), losing(pgtest.LoseRequest)
				s.Restart = func(context.Context) error {
					own.Kill()
					own.Restart(t)
					return nil
				}
				return s
			})
		})
	}
}

func TestSQLitePassesTheSuite(t *testing.T) {
	for _, params := range []string{
		"_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(off)",
		"_pragma=busy_timeout(10000)&_pragma=journal_mode(delete)&_pragma=synchronous(off)",
	} {
		t.Run(params, func(t *testing.T) {
			guardtest.Run(t, func(t *testing.T) guardtest.Store {
				dsn := sqliteDSN(t) + "?" + params
				db := openDB(t, "sqlite", dsn)
				s := kvStore(t, backendOf(sqlguard.SQLite), db, newGuard(t, db, sqlguard.SQLite, nil))
				s.Restart = func(ctx context.Context) error {
					// Every connection is closed, and new ones open the file.
					db.SetMaxIdleConns(0)
					db.SetMaxIdleConns(2)
					return nil
				}
				s.Without = map[guardtest.Capability]string{
					guardtest.LoseReply:   "the storage is in the process, there is no reply to lose",
					guardtest.LoseRequest: "the storage is in the process, there is no request to lose",
				}
				return s
			})
		})
	}
}

func TestMariaDBPassesTheSuite(t *testing.T) {
	for _, level := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelSerializable} {
		t.Run(level.String(), func(t *testing.T) {
			own := mariadbtest.Start(t, false) // one check kills it
			dsn := own.Database(t)
			guardtest.Run(t, func(t *testing.T) guardtest.Store {
				proxy, through := mariadbtest.NewProxy(t, dsn)
				opts := &sqlguard.Options{Isolation: level}
				db := openDB(t, "mysql", dsn)
				mustExec(t, db, "DROP TABLE IF EXISTS kv, fencedlock_marks, fencedlock_marks_once")
				b := backendOf(sqlguard.MySQL)
				s := kvStore(t, b, db, newGuard(t, db, sqlguard.MySQL, opts))
				lossy := newGuard(t, openDB(t, "mysql", through), sqlguard.MySQL, opts)
				losing := func(fault mariadbtest.CommitFault) func(context.Context, string, guard.Token, string) error {
					return func(ctx context.Context, resource string, tok guard.Token, value string) error {
						hit := proxy.Fail(fault)
						err := lossy.Do(ctx, resource, tok, b.put(resource, value))
						select {
						case <-hit:
						case <-time.After(10 * time.Second):
							t.Error("no COMMIT came")
						}
						return err
					}
				}
				s.LoseReply, s.LoseRequest = losing(mariadbtest.LoseReply), losing(mariadbtest.LoseRequest)
				s.Restart = func(context.Context) error {
					own.Kill()
					own.Restart(t)
					return nil
				}
				return s
			})
		})
	}
}
