package pgxguard_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/guardtest"
	"github.com/fencedlock/fencedlock/guard/pgxguard"
	"github.com/fencedlock/fencedlock/internal/pgtest"
)

const createKV = "CREATE TABLE kv (resource varchar(512) PRIMARY KEY, value text)"

// kvStore is the suite's view of a guarded table with a value for each resource, which is read through pool.
func kvStore(t *testing.T, pool *pgxpool.Pool, g *pgxguard.Guard) guardtest.Store {
	t.Helper()
	mustExec(t, pool, createKV)
	return guardtest.Store{
		Sealer: g,
		Write: func(ctx context.Context, resource string, tok guard.Token, value string) error {
			return g.Do(ctx, resource, tok, put(resource, value))
		},
		Read: func(ctx context.Context, resource string) (string, error) {
			var v string
			err := pool.QueryRow(ctx, "SELECT value FROM kv WHERE resource = $1", resource).Scan(&v)
			if errors.Is(err, pgx.ErrNoRows) {
				err = nil
			}
			return v, err
		},
		Delete: func(ctx context.Context, resource string, tok guard.Token) error {
			return g.Do(ctx, resource, tok, doExec("DELETE FROM kv WHERE resource = $1", resource))
		},
	}
}

func put(resource, value string) func(context.Context, pgx.Tx) error {
	return doExec("INSERT INTO kv VALUES ($1, $2) ON CONFLICT (resource) DO UPDATE SET value = excluded.value", resource, value)
}

func TestGuardPassesTheSuite(t *testing.T) {
	for _, level := range []pgx.TxIsoLevel{"", pgx.Serializable} {
		t.Run("isolation="+string(level), func(t *testing.T) {
			// One check kills the server, so it is not the shared one.
			own := pgtest.Start(t, false)
			dsn := own.Database(t)
			guardtest.Run(t, func(t *testing.T) guardtest.Store {
				proxy, through := pgtest.NewProxy(t, dsn)
				opts := &pgxguard.Options{Isolation: level}
				pool := openPool(t, dsn)
				mustExec(t, pool, "DROP TABLE IF EXISTS kv, fencedlock_marks, fencedlock_marks_once")
				s := kvStore(t, pool, newGuard(t, pool, opts))
				lossy := newGuard(t, openPool(t, through), opts)
				losing := func(fault pgtest.CommitFault) func(context.Context, string, guard.Token, string) error {
					return func(ctx context.Context, resource string, tok guard.Token, value string) error {
						hit := proxy.Fail(fault)
						err := lossy.Do(ctx, resource, tok, put(resource, value))
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

// The guard's own statements must work however the user's pool executes statements. The default mode is tried above.
func TestEveryQueryExecModePassesTheSuite(t *testing.T) {
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			guardtest.Run(t, func(t *testing.T) guardtest.Store {
				cfg, err := pgxpool.ParseConfig(pgtest.Schema(t))
				if err != nil {
					t.Fatal(err)
				}
				cfg.ConnConfig.DefaultQueryExecMode = mode
				pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(pool.Close)
				s := kvStore(t, pool, newGuard(t, pool, nil))
				s.Without = triedElsewhere
				return s
			})
		})
	}
}

var triedElsewhere = map[guardtest.Capability]string{
	guardtest.Restart:     "tried in the default mode",
	guardtest.LoseReply:   "tried in the default mode",
	guardtest.LoseRequest: "tried in the default mode",
}
