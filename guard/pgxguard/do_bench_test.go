package pgxguard_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/internal/pgtest"
)

// BenchmarkDo runs transactions with the guard and without it, in turn on one connection, against a PostgreSQL that
// syncs every commit to disk. Their statements are sent one by one, or in one batch. guarded/plain is the ratio of the
// medians' rates: 1 is for free.
func BenchmarkDo(b *testing.B) {
	for _, batch := range []bool{false, true} {
		for _, statements := range []int{1, 5, 20} {
			b.Run(fmt.Sprintf("batch=%v/statements=%d", batch, statements), func(b *testing.B) { benchmarkDo(b, batch, statements) })
		}
	}
}

func benchmarkDo(b *testing.B, batch bool, statements int) {
	pool := openPool(b, pgtest.Start(b, true).Database(b)+"&pool_max_conns=1")
	g := newGuard(b, pool, nil)
	mustExec(b, pool, "CREATE TABLE account (id int PRIMARY KEY, balance bigint)", "INSERT INTO account SELECT i, 0 FROM generate_series(1, 100) i")
	const update = "UPDATE account SET balance = balance + 1 WHERE id = $1"
	n := 0
	work := func(ctx context.Context, tx pgx.Tx) error {
		if !batch {
			for range statements {
				n++
				if _, err := tx.Exec(ctx, update, 1+n%100); err != nil {
					return err
				}
			}
			return nil
		}
		q := &pgx.Batch{}
		for range statements {
			n++
			q.Queue(update, 1+n%100)
		}
		return tx.SendBatch(ctx, q).Close()
	}
	tok := guard.Token(0)
	ops := []struct {
		name string
		run  func(ctx context.Context) error
		took []time.Duration
	}{
		{"plain", func(ctx context.Context) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return work(ctx, tx) })
		}, nil},
		{"guarded", func(ctx context.Context) error {
			tok++ // the costlier case, a new holder each time
			return g.Do(ctx, "account", tok, work)
		}, nil},
	}
	turn := func() {
		for i := range ops {
			start := time.Now()
			if err := ops[i].run(b.Context()); err != nil {
				b.Fatal(err)
			}
			ops[i].took = append(ops[i].took, time.Since(start))
		}
	}
	for range 20 { // statements are prepared, the server's caches are warm
		turn()
	}
	for i := range ops {
		ops[i].took = nil
	}
	for b.Loop() {
		turn()
	}
	median := make(map[string]float64) // µs
	for _, o := range ops {
		slices.Sort(o.took)
		median[o.name] = float64(o.took[len(o.took)/2].Microseconds())
		b.ReportMetric(median[o.name], o.name+"-µs")
	}
	b.ReportMetric(median["plain"]/median["guarded"], "guarded/plain")
}
