package sqlguard_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/sqlguard"
	"github.com/fencedlock/fencedlock/internal/mariadbtest"
	"github.com/fencedlock/fencedlock/internal/pgtest"
)

// BenchmarkDo runs transactions of a few statements with the guard and without it, in turn on one connection, against
// databases that sync every commit to disk. guarded/plain is the ratio of the medians' rates: 1 is for free.
func BenchmarkDo(b *testing.B) {
	for _, d := range []backend{
		{name: "Postgres", dialect: sqlguard.Postgres, open: func(t testing.TB) *sql.DB { return openDB(t, "pgx", pgtest.Start(t, true).Database(t)) }},
		{name: "MariaDB", dialect: sqlguard.MySQL, open: func(t testing.TB) *sql.DB {
			return openDB(t, "mysql", mariadbtest.Start(t, true).Database(t)+"?interpolateParams=true&idle_write_transaction_timeout=5")
		}},
		{name: "MariaDB, limit set by Do", dialect: sqlguard.MySQL, open: func(t testing.TB) *sql.DB { return openDB(t, "mysql", mariadbtest.Start(t, true).Database(t)) }},
		{name: "SQLite", dialect: sqlguard.SQLite, open: func(t testing.TB) *sql.DB {
			return openDB(t, "sqlite", sqliteDSN(t)+"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)")
		}},
	} {
		for _, statements := range []int{1, 2, 5} {
			b.Run(fmt.Sprintf("%s/statements=%d", d.name, statements), func(b *testing.B) { benchmarkDo(b, d, statements) })
		}
	}
}

func benchmarkDo(b *testing.B, d backend, statements int) {
	db := d.open(b)
	db.SetMaxOpenConns(1)
	g := newGuard(b, db, d.dialect, nil)
	mustExec(b, db, "CREATE TABLE account (id int PRIMARY KEY, balance bigint)")
	for i := range 100 {
		mustExec(b, db, fmt.Sprintf("INSERT INTO account VALUES (%d, 0)", 1+i))
	}
	update := d.sql("UPDATE account SET balance = balance + 1 WHERE id = $1")
	ctx := b.Context()
	n := 0
	work := func(ctx context.Context, tx *sql.Tx) error {
		for range statements {
			n++
			if _, err := tx.ExecContext(ctx, update, 1+n%100); err != nil {
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
	mo, mw := inTurn(b, plain, guarded)
	b.ReportMetric(float64(mo)/float64(mw), "guarded/plain")
	b.ReportMetric(float64(mw.Microseconds()), "guarded-µs")
	b.ReportMetric(float64(mo.Microseconds()), "plain-µs")
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
	for range 20 { // statements are prepared, the server's caches are warm
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

// BenchmarkGrowth compares Do on a table of ten marks with Do on one of a million, in turn on one connection, without
// syncing to disk, which would hide the difference. Ten resources, spread over the table, are in use in both, or all of
// them, which then also costs pages that nobody has touched before. 1000000/10 is the ratio of the medians of their times.
func BenchmarkGrowth(b *testing.B) {
	const many = 1_000_000
	fill := map[sqlguard.Dialect]string{
		sqlguard.Postgres: "INSERT INTO %s SELECT 'r' || i, 1, 1 FROM generate_series(1, %d) i",
		sqlguard.MySQL:    "INSERT INTO %s SELECT concat('r', seq), 1, 1 FROM seq_1_to_%d",
		sqlguard.SQLite:   "INSERT INTO %s WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) SELECT 'r' || i, 1, 1 FROM n",
	}
	for i, inUse := range []int{10, many, 10, many, 10, many} {
		d := backends[i/2]
		b.Run(fmt.Sprintf("%s/used=%d", d.name, inUse), func(b *testing.B) {
			db := d.open(b)
			db.SetMaxOpenConns(1)
			var ops []func() error
			for _, n := range []int{10, many} {
				table := fmt.Sprintf("marks%d", n)
				g := newGuard(b, db, d.dialect, &sqlguard.Options{Table: table})
				mustExec(b, db, fmt.Sprintf(fill[d.dialect], table, n))
				if d.dialect == sqlguard.Postgres {
					mustExec(b, db, "VACUUM ANALYZE "+table)
				}
				account := fmt.Sprintf("account%d", n)
				mustExec(b, db, "CREATE TABLE "+account+" (n bigint)", "INSERT INTO "+account+" VALUES (0)")
				tok := guard.Token(1)
				ops = append(ops, func() error {
					tok++
					return g.Do(b.Context(), fmt.Sprintf("r%d", 1+rand.IntN(min(n, inUse))*max(1, n/inUse)), tok, doExec("UPDATE "+account+" SET n = n + 1"))
				})
			}
			few, lots := inTurn(b, ops[0], ops[1])
			b.ReportMetric(float64(lots)/float64(few), "1000000/10")
			b.ReportMetric(float64(lots.Microseconds()), "1000000-µs")
		})
	}
}
