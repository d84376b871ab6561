package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/libtnb/sqlite"
	"go.uber.org/goleak"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/fencedlock/fencedlock/guard/sqlguard"
)

func TestMain(m *testing.M) {
	// gorm's cache of prepared statements has a goroutine that nothing ends.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("gorm.io/gorm/internal/lru.NewLRU[...].func1"))
}

const story = `token 9: <nil>
token 7: guard: stale token 7 for "account/alice": 9 has been seen, so a newer holder is at work; stop writing
balance: 90
`

func TestLateWithdrawalIsRefused(t *testing.T) {
	for name, prepare := range map[string]bool{"plain": false, "with prepared statements": true} {
		var out strings.Builder
		if err := run(t.Context(), &out, filepath.Join(t.TempDir(), "bank.db"), prepare); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if out.String() != story {
			t.Errorf("%s:\n%swant\n%s", name, &out, story)
		}
	}
}

// What is guarded and fails later leaves no mark, and what is outside of a transaction is no place for Check.
func TestFailedTransactionLeavesNoMark(t *testing.T) {
	db, err := gorm.Open(sqlite.Open("file:"+filepath.Join(t.TempDir(), "bank.db")), &gorm.Config{Logger: logger.Default.LogMode(logger.Silent)})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	g, err := sqlguard.New(pool, sqlguard.SQLite, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := withdraw(context.Background(), db, g, "bob", 5); err == nil { // there is no table of accounts
		t.Error("a withdrawal without a table succeeded")
	}
	if high, err := g.Highest(t.Context(), "account/bob"); high != 0 || err != nil {
		t.Errorf("Highest = %d, %v; want 0", high, err)
	}
	if tx, err := sqlTx(db); err == nil {
		t.Errorf("outside of a transaction there is one: %v", tx)
	}
}
