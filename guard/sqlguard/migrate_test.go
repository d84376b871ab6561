package sqlguard_test

import (
	"database/sql"
	"strings"
	"sync"
	"testing"

	"github.com/fencedlock/fencedlock/guard/sqlguard"
	"github.com/fencedlock/fencedlock/internal/pgtest"
)

func TestMigrationsMayMeet(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		for _, level := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelSerializable} {
			db := b.open(t)
			var wg sync.WaitGroup
			for range 8 {
				g, err := sqlguard.New(db, b.dialect, &sqlguard.Options{Isolation: level})
				if err != nil {
					t.Fatal(err)
				}
				wg.Go(func() {
					for range 2 {
						if err := g.Migrate(t.Context()); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
		}
	})
}

func TestMigrateKeepsMarks(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		db := b.open(t)
		g := newGuard(t, db, b.dialect, nil)
		if err := g.Seal(t.Context(), "x", 5); err != nil {
			t.Fatal(err)
		}
		mustExec(t, db, strings.SplitAfter(strings.TrimSpace(g.Schema()), ";\n")...) // the user's own migration, run once more
		g = newGuard(t, db, b.dialect, nil)
		if high, err := g.Highest(t.Context(), "x"); high != 5 || err != nil {
			t.Errorf("Highest = %d, %v; want 5", high, err)
		}
	})
}

func TestMigrateRefusesATableOfAnotherVersion(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		db := b.open(t)
		g := newGuard(t, db, b.dialect, nil)
		if v := value[int](t, db, "SELECT token FROM fencedlock_marks WHERE resource = ''"); v != 1 {
			t.Errorf("the table has version %d; want 1", v)
		}
		mustExec(t, db, "UPDATE fencedlock_marks SET token = 2 WHERE resource = ''")
		if err := g.Migrate(t.Context()); err == nil || !strings.Contains(err.Error(), "version 2") {
			t.Errorf("Migrate = %v; want an error about version 2", err)
		}
		mustExec(t, db, "DROP TABLE fencedlock_marks", "CREATE TABLE fencedlock_marks (n int)")
		if err := g.Migrate(t.Context()); err == nil || strings.Contains(err.Error(), "call Migrate") {
			t.Errorf("Migrate on a foreign table = %v; want its error", err)
		}
	})
}

// In production the program often may not create tables, and calls Migrate all the same.
func TestMigrateNeedsNoRightsWhenTheTableIsThere(t *testing.T) {
	dsn := pgtest.Database(t)
	db := openDB(t, "pgx", dsn)
	newGuard(t, db, sqlguard.Postgres, nil)
	mustExec(t, db, "CREATE ROLE plain LOGIN", "REVOKE CREATE ON SCHEMA public FROM PUBLIC", "GRANT SELECT, INSERT, UPDATE ON fencedlock_marks TO plain", "GRANT SELECT ON fencedlock_marks_once TO plain")
	t.Cleanup(func() { mustExec(t, db, "DROP OWNED BY plain", "DROP ROLE plain") })
	plain := openDB(t, "pgx", strings.Replace(dsn, "postgres@", "plain@", 1))
	g := newGuard(t, plain, sqlguard.Postgres, nil)
	if err := g.Seal(t.Context(), "x", 5); err != nil {
		t.Error(err)
	}
}

// A table without a column that checks need is found out by Migrate, and not by the first write of each worker.
func TestMigrateTellsThatAColumnIsMissing(t *testing.T) {
	db := openPostgres(t)
	g := newGuard(t, db, sqlguard.Postgres, nil)
	mustExec(t, db, "ALTER TABLE fencedlock_marks DROP COLUMN txid")
	if err := g.Seal(t.Context(), "x", 5); err == nil || !strings.Contains(err.Error(), "lacks a column") {
		t.Errorf("Seal = %v; want an error about the column", err)
	}
	err := g.Migrate(t.Context())
	if err == nil || !strings.Contains(err.Error(), "lacks a column") {
		t.Fatalf("Migrate = %v; want an error about the column", err)
	}
	// It helps to do as it says.
	_, stmt, _ := strings.Cut(err.Error(), "run ")
	stmt, _, _ = strings.Cut(stmt, ",")
	mustExec(t, db, stmt)
	if err := g.Migrate(t.Context()); err != nil {
		t.Error(err)
	}
	if err := g.Seal(t.Context(), "x", 5); err != nil {
		t.Error(err)
	}
}
