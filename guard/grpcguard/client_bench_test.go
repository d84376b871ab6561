package grpcguard_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/grpcguard"
	"github.com/fencedlock/fencedlock/guard/sqlguard"
)

// BenchmarkPut makes calls with a token through the interceptors, and the same without, in turn on one connection each. Once
// the handler does nothing, so that the carrying is all; once it writes to an SQLite file that syncs, with sqlguard and without.
// guarded/plain is the ratio of the medians' rates: 1 is for free.
func BenchmarkPut(b *testing.B) {
	b.Run("handler=nothing", func(b *testing.B) {
		nothing := func(context.Context, string, []byte) ([]byte, error) { return nil, nil }
		benchmarkPut(b, nothing, nothing)
	})
	b.Run("handler=SQLite", func(b *testing.B) {
		db, err := sql.Open("sqlite", "file:"+filepath.Join(b.TempDir(), "bench.db")+"?_txlock=immediate&_pragma=journal_mode(wal)&_pragma=synchronous(full)")
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = db.Close() })
		db.SetMaxOpenConns(1)
		g, err := sqlguard.New(db, sqlguard.SQLite, nil)
		if err == nil {
			err = g.Migrate(b.Context())
		}
		if err == nil {
			_, err = db.Exec("CREATE TABLE account (balance INTEGER); INSERT INTO account VALUES (0)")
		}
		if err != nil {
			b.Fatal(err)
		}
		const update = "UPDATE account SET balance = balance + 1"
		benchmarkPut(b, func(ctx context.Context, _ string, _ []byte) ([]byte, error) {
			_, err := db.ExecContext(ctx, update)
			return nil, err
		}, func(ctx context.Context, _ string, _ []byte) ([]byte, error) {
			resource, tok, _ := guard.FromContext(ctx)
			return nil, g.Do(ctx, resource, tok, func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, update)
				return err
			})
		})
	})
}

func benchmarkPut(b *testing.B, plain, fenced handlerFunc) {
	s := serve(b, &grpcguard.Options{
		Resource: func(string, any) string { return "account/1" },
		Optional: func(context.Context, string) bool { return true },
	}, func(ctx context.Context, method string, in []byte) ([]byte, error) {
		if _, _, ok := guard.FromContext(ctx); ok {
			return fenced(ctx, method, in)
		}
		return plain(ctx, method, in)
	})
	send := func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := call(ctx, conn, methodPut, "value")
		return err
	}
	bare, through := dial(b, s.addr), dial(b, s.addr, guarded(nil)...)
	tok := guard.Token(0)
	one, other := inTurn(b, func() error { return send(b.Context(), bare) }, func() error {
		tok++ // the costlier case, a new holder each time
		return send(guard.NewContext(b.Context(), "account/1", tok), through)
	})
	b.ReportMetric(float64(one)/float64(other), "guarded/plain")
	b.ReportMetric(float64(other.Microseconds()), "guarded-µs")
	b.ReportMetric(float64(one.Microseconds()), "plain-µs")
}

// inTurn runs both in turn, and returns the medians of their times.
func inTurn(b *testing.B, one, other func() error) (time.Duration, time.Duration) {
	timed := func(op func() error) time.Duration {
		start := time.Now()
		if err := op(); err != nil {
			b.Fatal(err)
		}
		return time.Since(start)
	}
	for range 20 { // the connection is there, caches are warm
		timed(one)
		timed(other)
	}
	var a, c []time.Duration
	for b.Loop() {
		a = append(a, timed(one))
		c = append(c, timed(other))
	}
	slices.Sort(a)
	slices.Sort(c)
	return a[len(a)/2], c[len(c)/2]
}
