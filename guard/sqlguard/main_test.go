package sqlguard_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/fencedlock/fencedlock/guard/sqlguard"
	"github.com/fencedlock/fencedlock/internal/child"
	"github.com/fencedlock/fencedlock/internal/mariadbtest"
	"github.com/fencedlock/fencedlock/internal/pgtest"
)

func TestMain(m *testing.M) {
	child.Main(map[string]child.Role{"holder": holder})
	goleak.VerifyTestMain(pgtest.Main(mariadbtest.Main(m)))
}

// backend is a database to run a test on.
type backend struct {
	name    string
	dialect sqlguard.Dialect
	open    func(t testing.TB) *sql.DB
	serial  string // the column type of a number that counts up
	key     string // the column type of a name
	text    string // the column type of a value
}

// sql writes the parameters of a statement, $1 and so on in their order, as the database wants them.
func (b backend) sql(query string) string {
	if b.dialect == sqlguard.Postgres {
		return query
	}
	return regexp.MustCompile(`\$[0-9]`).ReplaceAllString(query, "?")
}

var backends = []backend{
	{"Postgres", sqlguard.Postgres, openPostgres, "bigserial", "text", "text"},
	{"SQLite", sqlguard.SQLite, openSQLite, "integer", "text", "text"},
	{"MariaDB", sqlguard.MySQL, openMariaDB, "bigint AUTO_INCREMENT", "varbinary(512)", "longtext CHARACTER SET utf8mb4"},
}

func backendOf(d sqlguard.Dialect) backend {
	return backends[slices.IndexFunc(backends, func(b backend) bool { return b.dialect == d })]
}

func onEach(t *testing.T, run func(t *testing.T, b backend)) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) { run(t, b) })
	}
}

func openDB(t testing.TB, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func openPostgres(t testing.TB) *sql.DB {
	t.Helper()
	return openDB(t, "pgx", pgtest.Schema(t))
}

func openSQLite(t testing.TB) *sql.DB {
	t.Helper()
	return openDB(t, "sqlite", sqliteDSN(t)+"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(off)")
}

func openMariaDB(t testing.TB) *sql.DB {
	t.Helper()
	return openDB(t, "mysql", mariadbtest.Database(t))
}

func sqliteDSN(t testing.TB) string { return "file:" + filepath.Join(t.TempDir(), "test.db") }

// newGuard returns a guard whose table exists.
func newGuard(t testing.TB, db *sql.DB, d sqlguard.Dialect, o *sqlguard.Options) *sqlguard.Guard {
	t.Helper()
	g, err := sqlguard.New(db, d, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return g
}

func mustExec(t testing.TB, db *sql.DB, stmts ...string) {
	t.Helper()
	for _, s := range stmts {
		if _, err := db.ExecContext(context.Background(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// value runs a query that gives one value.
func value[T any](t testing.TB, db *sql.DB, query string, args ...any) T {
	t.Helper()
	var v T
	if err := db.QueryRowContext(context.Background(), query, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

// doExec is a function for Do that runs one statement.
func doExec(query string, args ...any) func(context.Context, *sql.Tx) error {
	return func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, query, args...)
		return err
	}
}
