package sqlguard_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/sqlguard"
	"github.com/fencedlock/fencedlock/internal/pgtest"
)

func TestNewRefusesWhatMakesNoSense(t *testing.T) {
	db := openSQLite(t)
	for _, c := range []struct {
		names string // what the error must name
		db    *sql.DB
		d     sqlguard.Dialect
		o     sqlguard.Options
	}{
		{"db", nil, sqlguard.Postgres, sqlguard.Options{}},
		{"Dialect(0)", db, 0, sqlguard.Options{}},
		{"Dialect(99)", db, 99, sqlguard.Options{}},
		{"Options.MaxRetries", db, sqlguard.Postgres, sqlguard.Options{MaxRetries: -1}},
		{"Options.Isolation", db, sqlguard.Postgres, sqlguard.Options{Isolation: sql.LevelLinearizable}},
		{"Options.Isolation", db, sqlguard.Postgres, sqlguard.Options{Isolation: sql.LevelWriteCommitted}},
		{"Options.Isolation", db, sqlguard.Postgres, sqlguard.Options{Isolation: -1}},
		{"Options.Isolation", db, sqlguard.SQLite, sqlguard.Options{Isolation: sql.LevelReadCommitted}},
		{"Options.Isolation", db, sqlguard.MySQL, sqlguard.Options{Isolation: sql.LevelSnapshot}},
		{"Options.Table", db, sqlguard.Postgres, sqlguard.Options{Table: "a b"}},
		{"Options.Table", db, sqlguard.Postgres, sqlguard.Options{Table: `a"b`}},
		{"Options.Table", db, sqlguard.Postgres, sqlguard.Options{Table: `a"; DROP TABLE x; --`}},
		{"Options.Table", db, sqlguard.SQLite, sqlguard.Options{Table: "a.b.c"}},
		{"Options.Table", db, sqlguard.SQLite, sqlguard.Options{Table: "a."}},
		{"Options.Table", db, sqlguard.SQLite, sqlguard.Options{Table: ".a"}},
		{"Options.Table", db, sqlguard.SQLite, sqlguard.Options{Table: "1a"}},
		{"Options.Table", db, sqlguard.SQLite, sqlguard.Options{Table: "tä"}},
		{"Options.Table", db, sqlguard.SQLite, sqlguard.Options{Table: "a\x00"}},
		{"Options.Table", db, sqlguard.SQLite, sqlguard.Options{Table: "a\n"}},
		{"Options.Table", db, sqlguard.SQLite, sqlguard.Options{Table: strings.Repeat("a", 49)}},
		{"Options.Table", db, sqlguard.SQLite, sqlguard.Options{Table: strings.Repeat("a", 64) + ".a"}},
	} {
		g, err := sqlguard.New(c.db, c.d, &c.o)
		if g != nil || err == nil || !strings.HasPrefix(err.Error(), "sqlguard: ") || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%+v: %v, %v; want an error that names %s", c.o, g, err, c.names)
		}
	}
}

func TestTableNamesStandAsGiven(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		db := b.open(t)
		switch b.dialect {
		case sqlguard.MySQL:
			mustExec(t, db, "CREATE DATABASE Other")
			t.Cleanup(func() { mustExec(t, db, "DROP DATABASE Other") })
		case sqlguard.Postgres:
			db = openDB(t, "pgx", pgtest.Database(t)) // a schema of that name is for this test alone
			mustExec(t, db, `CREATE SCHEMA "Other"`)
		}
		for _, table := range []string{"", "select", "Marks", "_", strings.Repeat("a", 48), "Other.marks"} {
			if table == "Other.marks" && b.dialect == sqlguard.SQLite {
				table = "main.marks2"
			}
			g := newGuard(t, db, b.dialect, &sqlguard.Options{Table: table})
			if high, err := g.Highest(t.Context(), "x"); high != 0 || err != nil {
				t.Errorf("%q: Highest = %d, %v; want a table of its own", table, high, err)
			}
			if err := g.Seal(t.Context(), "x", 5); err != nil {
				t.Errorf("%q: %v", table, err)
			}
		}
	})
}

func TestMissingTableSaysWhatToDo(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		db := b.open(t)
		g, err := sqlguard.New(db, b.dialect, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, errHighest := g.Highest(t.Context(), "x")
		for op, err := range map[string]error{
			"Do":      g.Do(t.Context(), "x", 5, func(context.Context, *sql.Tx) error { t.Error("fn ran"); return nil }),
			"Seal":    g.Seal(t.Context(), "x", 5),
			"Check":   g.Check(t.Context(), begin(t, db), "x", 5),
			"Highest": errHighest,
		} {
			if err == nil || !strings.Contains(err.Error(), "call Migrate") {
				t.Errorf("%s: %v; want advice", op, err)
			}
		}
		// A missing table of the user's own is not mistaken for ours.
		if err := g.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := g.Do(t.Context(), "x", 5, doExec("DELETE FROM nowhere")); err == nil || strings.Contains(err.Error(), "call Migrate") {
			t.Errorf("the user's own table: %v", err)
		}
	})
}

// What can be seen to be wrong costs no connection: here there is none to be had.
func TestBadArgumentsAreRefusedWithoutIO(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		db := b.open(t)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		g, err := sqlguard.New(db, b.dialect, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []string{"", strings.Repeat("x", 513), "a\x00b", "\xff"} {
			_, errHighest := g.Highest(t.Context(), r)
			for op, err := range map[string]error{
				"Do":      g.Do(t.Context(), r, 5, func(context.Context, *sql.Tx) error { return nil }),
				"Seal":    g.Seal(t.Context(), r, 5),
				"Highest": errHighest,
			} {
				if err == nil || !strings.Contains(err.Error(), "name") || strings.Contains(err.Error(), "closed") {
					t.Errorf("%s on %.9q: %v; want an error about the name", op, r, err)
				}
			}
		}
		for _, tok := range []guard.Token{0, -1} {
			if err := g.Do(t.Context(), "x", tok, func(context.Context, *sql.Tx) error { return nil }); !errors.Is(err, guard.ErrNoToken) {
				t.Errorf("Do with token %d: %v", tok, err)
			}
			if err := g.Seal(t.Context(), "x", tok); !errors.Is(err, guard.ErrNoToken) {
				t.Errorf("Seal with token %d: %v", tok, err)
			}
		}
		if err := g.Check(t.Context(), nil, "x", 5); err == nil || !strings.Contains(err.Error(), "transaction") {
			t.Errorf("Check without a transaction: %v", err)
		}
	})
}

func TestZeroGuardReturnsErrors(t *testing.T) {
	db := openSQLite(t)
	for _, g := range []*sqlguard.Guard{{}, nil} {
		tx := begin(t, db)
		_, errHighest := g.Highest(t.Context(), "x")
		_, errOnce := g.Once(t.Context(), tx, "x", "a")
		_, errPrune := g.PruneOnce(t.Context(), time.Hour)
		var errMarks error
		for _, errMarks = range g.Marks(t.Context()) {
		}
		for op, err := range map[string]error{
			"Do": g.Do(t.Context(), "x", 5, func(context.Context, *sql.Tx) error { return nil }), "Seal": g.Seal(t.Context(), "x", 5),
			"Check": g.Check(t.Context(), tx, "x", 5), "Migrate": g.Migrate(t.Context()), "Highest": errHighest, "Once": errOnce, "PruneOnce": errPrune,
			"Marks": errMarks, "Protect": g.Protect(t.Context(), "doc", "x"), "Unprotect": g.Unprotect(t.Context(), "doc"),
		} {
			if err == nil || !strings.Contains(err.Error(), "not made by New") {
				t.Errorf("%s: %v; want an error about New", op, err)
			}
		}
		if s := g.Schema(); s != "" {
			t.Errorf("Schema: %q", s)
		}
	}
}
