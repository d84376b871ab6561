package sqlguard_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/fencedlock/fencedlock/guard/sqlguard"
	"github.com/fencedlock/fencedlock/internal/mariadbtest"
	"github.com/fencedlock/fencedlock/internal/pgtest"
)

// The owner migrates, and the workers have the rights that the package's text names. Each of them is needed, and the error
// says which there are.
func TestWorkerNeedsTheRightsThatAreDocumentedAndNoOthers(t *testing.T) {
	for _, c := range []struct {
		backend
		user string
		open func(t *testing.T) (owner, worker *sql.DB)
		more []string // beside those on the tables
	}{
		{backendOf(sqlguard.Postgres), "worker", func(t *testing.T) (owner, worker *sql.DB) {
			dsn := pgtest.Database(t)
			owner = openDB(t, "pgx", dsn)
			mustExec(t, owner, "CREATE ROLE worker LOGIN", "CREATE SCHEMA app")
			t.Cleanup(func() { mustExec(t, owner, "DROP OWNED BY worker", "DROP ROLE worker") })
			return owner, openDB(t, "pgx", strings.Replace(dsn, "postgres@", "worker@", 1))
		}, []string{"USAGE ON SCHEMA app"}},
		{backendOf(sqlguard.MySQL), "worker@'%'", func(t *testing.T) (owner, worker *sql.DB) {
			owner = openMariaDB(t)
			mustExec(t, owner, "CREATE DATABASE app", "CREATE USER worker@'%'")
			t.Cleanup(func() { mustExec(t, owner, "DROP USER worker@'%'", "DROP DATABASE app") })
			as, err := mysql.ParseDSN(mariadbtest.Database(t))
			if err != nil {
				t.Fatal(err)
			}
			as.User, as.DBName = "worker", ""
			return owner, openDB(t, "mysql", as.FormatDSN())
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			owner, db := c.open(t)
			o := &sqlguard.Options{Table: "app.fencedlock_marks"}
			newGuard(t, owner, c.dialect, o)
			g, err := sqlguard.New(db, c.dialect, o)
			if err != nil {
				t.Fatal(err)
			}
			grant := func(right string) { mustExec(t, owner, "GRANT "+right+" TO "+c.user) }
			revoke := func(right string) { mustExec(t, owner, "REVOKE "+right+" FROM "+c.user) }
			const marks, once = " ON app.fencedlock_marks", " ON app.fencedlock_marks_once"
			rights := append(c.more, "SELECT"+marks, "INSERT"+marks, "UPDATE"+marks, "SELECT"+once, "INSERT"+once, "DELETE"+once)
			for _, r := range rights {
				grant(r)
			}
			for op, err := range work(t, g) {
				if err != nil {
					t.Errorf("%s with all rights: %v", op, err)
				}
			}
			for _, r := range rights {
				revoke(r)
				refused := 0
				for op, err := range work(t, g) {
					if err == nil {
						continue
					}
					refused++
					for _, part := range []string{"a right is missing", "SELECT, INSERT and UPDATE on", `"fencedlock_marks"`, "SELECT and INSERT on", `"fencedlock_marks_once"`} {
						if !strings.Contains(err.Error(), part) {
							t.Errorf("%s without %s: %v; want %q in it", op, r, err, part)
						}
					}
				}
				if refused == 0 {
					t.Errorf("without %s everything goes, so nobody needs it", r)
				}
				if strings.HasPrefix(r, "DELETE") && refused != 1 {
					t.Errorf("without %s %d operations are refused; want PruneOnce alone", r, refused)
				}
				grant(r)
			}
		})
	}
}

// work does all that a worker does.
func work(t *testing.T, g *sqlguard.Guard) map[string]error {
	_, errHighest := g.Highest(t.Context(), "x")
	_, errPrune := g.PruneOnce(t.Context(), time.Microsecond)
	var errMarks error
	for _, err := range g.Marks(t.Context()) {
		if err != nil {
			errMarks = err
		}
	}
	// Twice, since the second one takes another way.
	once := func(ctx context.Context, tx *sql.Tx) error {
		if _, err := g.Once(ctx, tx, "x", "a"); err != nil {
			return err
		}
		_, err := g.Once(ctx, tx, "x", "a")
		return err
	}
	return map[string]error{"Migrate": g.Migrate(t.Context()), "Seal": g.Seal(t.Context(), "x", 5), "Once": g.Do(t.Context(), "x", 5, once),
		"PruneOnce": errPrune, "Highest": errHighest, "Marks": errMarks}
}
