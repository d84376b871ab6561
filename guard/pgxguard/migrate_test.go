package pgxguard_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/fencedlock/fencedlock/guard/pgxguard"
)

func TestMigrationsMayMeet(t *testing.T) {
	pool := newPool(t)
	var wg sync.WaitGroup
	for range 8 {
		g, err := pgxguard.New(pool, nil)
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

func TestMigrateKeepsMarksAndRefusesAnotherVersion(t *testing.T) {
	pool := newPool(t)
	g := newGuard(t, pool, nil)
	if err := g.Seal(t.Context(), "x", 5); err != nil {
		t.Fatal(err)
	}
	mustExec(t, pool, g.Schema()) // the user's own migration, run once more
	g = newGuard(t, pool, nil)
	if high, err := g.Highest(t.Context(), "x"); high != 5 || err != nil {
		t.Errorf("Highest = %d, %v; want 5", high, err)
	}
	mustExec(t, pool, "UPDATE fencedlock_marks SET token = 2 WHERE resource = ''")
	if err := g.Migrate(t.Context()); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("Migrate = %v; want an error about version 2", err)
	}
	mustExec(t, pool, "DROP TABLE fencedlock_marks", "CREATE TABLE fencedlock_marks (n int)")
	if err := g.Migrate(t.Context()); err == nil || strings.Contains(err.Error(), "call Migrate") {
		t.Errorf("Migrate on a foreign table = %v; want its error", err)
	}
}

// A table without a column that checks need is found out by Migrate, and not by the first write of each worker.
func TestMigrateTellsThatAColumnIsMissing(t *testing.T) {
	pool := newPool(t)
	g := newGuard(t, pool, nil)
	mustExec(t, pool, "ALTER TABLE fencedlock_marks DROP COLUMN txid")
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
	mustExec(t, pool, stmt)
	if err := g.Migrate(t.Context()); err != nil {
		t.Error(err)
	}
	if err := g.Seal(t.Context(), "x", 5); err != nil {
		t.Error(err)
	}
}
