package pgxguard_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/pgxguard"
	"github.com/fencedlock/fencedlock/internal/pgtest"
)

func TestNewRefusesWhatMakesNoSense(t *testing.T) {
	pool := openPool(t, "postgres://127.0.0.1:1/x") // New does no I/O
	for _, c := range []struct {
		names string
		o     pgxguard.Options
	}{
		{"Options.MaxRetries", pgxguard.Options{MaxRetries: -1}},
		{"Options.Isolation", pgxguard.Options{Isolation: "snapshot"}},
		{"Options.Isolation", pgxguard.Options{Isolation: pgx.Serializable + "; COMMIT"}},
		{"Options.Table", pgxguard.Options{Table: "a.b.c"}},
		{"Options.Table", pgxguard.Options{Table: `a"; DROP TABLE x; --`}},
		{"Options.Table", pgxguard.Options{Table: "a\x00"}},
		{"Options.Table", pgxguard.Options{Table: strings.Repeat("a", 49)}},
	} {
		g, err := pgxguard.New(pool, &c.o)
		if g != nil || err == nil || !strings.HasPrefix(err.Error(), "pgxguard: ") || !strings.Contains(err.Error(), c.names) {
			t.Errorf("New(%+v) = %v, %v; want an error about %s", c.o, g, err, c.names)
		}
	}
	if _, err := pgxguard.New(nil, nil); err == nil || !strings.Contains(err.Error(), "pool") {
		t.Errorf("New without a pool: %v", err)
	}
	for _, level := range []pgx.TxIsoLevel{"", pgx.ReadUncommitted, pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		if _, err := pgxguard.New(pool, &pgxguard.Options{Isolation: level}); err != nil {
			t.Error(err)
		}
	}
}

func TestTableNamesStandAsGiven(t *testing.T) {
	pool := openPool(t, pgtest.Database(t))
	mustExec(t, pool, `CREATE SCHEMA "Other"`)
	for i, table := range []string{"", "select", "Marks", strings.Repeat("a", 48), "Other.marks"} {
		g := newGuard(t, pool, &pgxguard.Options{Table: table, Isolation: pgx.Serializable})
		tok := guard.Token(5 + i)
		if err := g.Seal(t.Context(), "x", tok); err != nil {
			t.Errorf("%q: %v", table, err)
		}
		if high, err := g.Highest(t.Context(), "x"); high != tok || err != nil {
			t.Errorf("%q: Highest = %d, %v", table, high, err)
		}
	}
	if n := value[int](t, pool, `SELECT count(*) FROM "Other".marks WHERE resource = 'x'`); n != 1 {
		t.Errorf("%d marks in the other schema", n)
	}
}

func TestMissingTableSaysWhatToDo(t *testing.T) {
	pool := newPool(t)
	g, err := pgxguard.New(pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, errHighest := g.Highest(t.Context(), "x")
	_, errOnce := g.Once(t.Context(), begin(t, pool), "x", "op")
	_, errPrune := g.PruneOnce(t.Context(), 1)
	var errMarks error
	for _, errMarks = range g.Marks(t.Context()) {
	}
	for op, err := range map[string]error{
		"Do":        g.Do(t.Context(), "x", 5, func(context.Context, pgx.Tx) error { t.Error("fn ran"); return nil }),
		"Seal":      g.Seal(t.Context(), "x", 5),
		"Check":     g.Check(t.Context(), begin(t, pool), "x", 5),
		"Highest":   errHighest,
		"Once":      errOnce,
		"PruneOnce": errPrune,
		"Marks":     errMarks,
		"Unprotect": g.Unprotect(t.Context(), "pg_class"),
	} {
		if err == nil || !strings.Contains(err.Error(), "call Migrate") {
			t.Errorf("%s: %v; want advice", op, err)
		}
	}
	if n := pool.Stat().AcquiredConns(); n != 0 {
		t.Errorf("%d connections were not given back", n)
	}
	// A missing table of the user's own is not mistaken for ours.
	if err := g.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := g.Do(t.Context(), "x", 5, doExec("DELETE FROM nowhere")); err == nil || strings.Contains(err.Error(), "call Migrate") {
		t.Errorf("the user's own table: %v", err)
	}
}

// What can be seen to be wrong costs no connection: here there is none to be had.
func TestBadArgumentsAreRefusedWithoutIO(t *testing.T) {
	pool := newPool(t)
	pool.Close()
	g, err := pgxguard.New(pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []string{"", strings.Repeat("x", 513), "a\x00b", "\xff"} {
		_, errHighest := g.Highest(t.Context(), r)
		for op, err := range map[string]error{
			"Do":      g.Do(t.Context(), r, 5, doNothing),
			"Seal":    g.Seal(t.Context(), r, 5),
			"Protect": g.Protect(t.Context(), "doc", r),
			"Highest": errHighest,
		} {
			if err == nil || !strings.Contains(err.Error(), "name") || strings.Contains(err.Error(), "closed") {
				t.Errorf("%s on %.9q: %v; want an error about the name", op, r, err)
			}
		}
	}
	for _, tok := range []guard.Token{0, -1, -1 << 63} {
		if err := g.Do(t.Context(), "x", tok, doNothing); !errors.Is(err, guard.ErrNoToken) {
			t.Errorf("Do with token %d: %v", tok, err)
		}
		if err := g.Seal(t.Context(), "x", tok); !errors.Is(err, guard.ErrNoToken) {
			t.Errorf("Seal with token %d: %v", tok, err)
		}
	}
	_, errOnce := g.Once(t.Context(), nil, "x", "op")
	_, errPrune := g.PruneOnce(t.Context(), 0)
	for op, c := range map[string]struct {
		err  error
		says string
	}{
		"Check without a transaction": {g.Check(t.Context(), nil, "x", 5), "transaction"},
		"Once without a transaction":  {errOnce, "transaction"},
		"PruneOnce of no age":         {errPrune, "age"},
		"Protect of no table":         {g.Protect(t.Context(), "a b", "x"), "table"},
		"a closed pool":               {g.Seal(t.Context(), "x", 5), "closed"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.says) || !strings.HasPrefix(c.err.Error(), "pgxguard: ") {
			t.Errorf("%s: %v; want an error about %q", op, c.err, c.says)
		}
	}
}

// A token of zero that means "no fencing" lets everybody in:
// https://github.com/awslabs/amazon-dynamodb-lock-client/issues/1, https://github.com/awslabs/amazon-dynamodb-lock-client/issues/62,
// https://github.com/bsm/redislock/pull/94
func TestMissingTokenIsNoPermission(t *testing.T) {
	pool := newPool(t)
	g := newGuard(t, pool, nil)
	for _, tok := range []guard.Token{0, -1, -1 << 63} {
		tx := begin(t, pool)
		if err := g.Check(t.Context(), tx, "x", tok); !errors.Is(err, guard.ErrNoToken) {
			t.Errorf("Check with token %d: %v", tok, err)
		}
		if err := tx.Commit(t.Context()); !errors.Is(err, pgx.ErrTxClosed) {
			t.Errorf("after a refused Check, Commit: %v; want ErrTxClosed", err)
		}
	}
	if n := value[int](t, pool, "SELECT count(*) FROM fencedlock_marks WHERE resource <> ''"); n != 0 {
		t.Errorf("%d resources are marked", n)
	}
}

func TestZeroGuardReturnsErrors(t *testing.T) {
	pool := newPool(t)
	for _, g := range []*pgxguard.Guard{{}, nil} {
		tx := begin(t, pool)
		_, errHighest := g.Highest(t.Context(), "x")
		_, errOnce := g.Once(t.Context(), tx, "x", "a")
		_, errPrune := g.PruneOnce(t.Context(), time.Hour)
		var errMarks error
		for _, errMarks = range g.Marks(t.Context()) {
		}
		for op, err := range map[string]error{
			"Do": g.Do(t.Context(), "x", 5, func(context.Context, pgx.Tx) error { return nil }), "Seal": g.Seal(t.Context(), "x", 5),
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
