package pgxguard_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/fencedlock/fencedlock/guard/pgxguard"
	"github.com/fencedlock/fencedlock/internal/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Main(m)) }

func openPool(t testing.TB, dsn string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		closed := make(chan struct{})
		go func() {
			pool.Close() // waits for the connections that are in use
			close(closed)
		}()
		select {
		case <-closed:
		case <-time.After(30 * time.Second):
			t.Error("a connection was not given back")
		}
	})
	return pool
}

// newPool returns a pool on an empty schema.
func newPool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return openPool(t, pgtest.Schema(t))
}

// newGuard returns a guard whose tables exist.
func newGuard(t testing.TB, pool *pgxpool.Pool, o *pgxguard.Options) *pgxguard.Guard {
	t.Helper()
	g, err := pgxguard.New(pool, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return g
}

func mustExec(t testing.TB, pool *pgxpool.Pool, stmts ...string) {
	t.Helper()
	for _, s := range stmts {
		if _, err := pool.Exec(context.Background(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// value runs a query that gives one value.
func value[T any](t testing.TB, pool *pgxpool.Pool, query string, args ...any) T {
	t.Helper()
	var v T
	if err := pool.QueryRow(context.Background(), query, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

// doExec is a function for Do that runs one statement.
func doExec(query string, args ...any) func(context.Context, pgx.Tx) error {
	return func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, query, args...)
		return err
	}
}

func doNothing(context.Context, pgx.Tx) error { return nil }
