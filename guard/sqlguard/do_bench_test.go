package sqlguard_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/sqlguard"
	"github.com/fencedlock/fencedlock/internal/pgtest"
)

// BenchmarkDo runs transactions of a few statements with the guard and without it, in turn on one connection, against a
// PostgreSQL that syncs every commit to disk. guarded/plain is the ratio of the medians' rates: 1 is for free.
func BenchmarkDo(b *testing.B) {
	for _, statements := range []int{1, 2, 5} {
		b.Run(fmt.Sprintf("statements=%d", statements), func(b *testing.B) { benchmarkDo(b, statements) })
	}
}

func benchmarkDo(b *testing.B, statements int) {
	db := openDB(b, "pgx", pgtest.Start(b, true).Database(b))
	db.SetMaxOpenConns(1)
	g := newGuard(b, db, sqlguard.Postgres, nil)
	mustExec(b, db, "CREATE TABLE account (id int PRIMARY KEY, balance bigint)", "INSERT INTO account SELECT i, 0 FROM generate_series(1, 100) i")
	ctx := b.Context()
	n := 0
	work := func(ctx context.Context, tx *sql.Tx) error {
		for range statements {
			n++
			if _, err := tx.ExecContext(ctx, "UPDATE account SET balance = balance + 1 WHERE id = $1", 1+n%100); err != nil {
				return err
			}
		}
		return nil
	}
	plain := func() error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if err := work(ctx, tx); err != nil {
			return err
		}
		return tx.Commit()
	}
	tok := guard.Token(0)
	guarded := func() error {
		tok++ // the costlier case, a new holder each time
		return g.Do(ctx, "account", tok, work)
	}
	timed := func(op func() error) time.Duration {
		start := time.Now()
		if err := op(); err != nil {
			b.Fatal(err)
		}
		return time.Since(start)
	}
	for range 20 { // statements are prepared, the server's caches are warm
		timed(plain)
		timed(guarded)
	}
	var with, without []time.Duration
	for b.Loop() {
		without = append(without, timed(plain))
		with = append(with, timed(guarded))
	}
	slices.Sort(with)
	slices.Sort(without)
	mw, mo := with[len(with)/2], without[len(without)/2]
	b.ReportMetric(float64(mo)/float64(mw), "guarded/plain")
	b.ReportMetric(float64(mw.Microseconds()), "guarded-µs")
	b.ReportMetric(float64(mo.Microseconds()), "plain-µs")
}
