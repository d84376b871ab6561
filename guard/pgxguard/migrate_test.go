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
