package sqlguard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/sqlguard"
)

func TestMarksAreAllThereInOrderAndWithoutTheVersion(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		db := b.open(t)
		g := newGuard(t, db, b.dialect, nil)
		for range g.Marks(t.Context()) {
			t.Error("a new table has a mark")
		}
		const n = 1203 // more than two pages
		tx := begin(t, db)
		for i := range n {
			name := fmt.Sprintf("r%05d", i)
			if i == n-1 {
				name = "Z " // before r in bytes, behind it in most collations
			}
			if err := g.Check(t.Context(), tx, name, guard.Token(1+i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := g.Seal(t.Context(), "Z ", n); err != nil {
			t.Fatal(err)
		}
		db.SetMaxOpenConns(1) // the loop's body must be able to use it
		want := sqlguard.Mark{Resource: "Z ", Token: n, Checks: 2}
		i := 0
		for m, err := range g.Marks(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if m != want {
				t.Fatalf("mark %d is %+v; want %+v", i, m, want)
			}
			if i%400 == 0 {
				if high, err := g.Highest(t.Context(), m.Resource); high != m.Token || err != nil {
					t.Errorf("Highest inside the loop = %d, %v", high, err)
				}
			}
			want = sqlguard.Mark{Resource: fmt.Sprintf("r%05d", i), Token: guard.Token(1 + i), Checks: 1}
			i++
		}
		if i != n {
			t.Errorf("%d marks; want %d", i, n)
		}
	})
}

func TestMarksLeaveNoConnectionBehind(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		db := b.open(t)
		g := newGuard(t, db, b.dialect, nil)
		for _, r := range []string{"a", "b", "c"} {
			if err := g.Seal(t.Context(), r, 5); err != nil {
				t.Fatal(err)
			}
		}
		for range g.Marks(t.Context()) {
			if n := db.Stats().InUse; n != 0 {
				t.Errorf("%d connections are in use inside the loop", n)
			}
			break
		}
		func() {
			defer func() { _ = recover() }()
			for range g.Marks(t.Context()) {
				panic("boom")
			}
		}()
		if n := db.Stats().InUse; n != 0 {
			t.Errorf("%d connections are in use after the loop", n)
		}
	})
}

func TestMarksEndAfterTheFirstError(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		db := b.open(t)
		g := newGuard(t, db, b.dialect, nil)
		if err := g.Seal(t.Context(), "a", 5); err != nil {
			t.Fatal(err)
		}
		errorsOf := func(ctx context.Context) (errs []error) {
			for m, err := range g.Marks(ctx) {
				if err != nil && m != (sqlguard.Mark{}) {
					t.Errorf("an error comes with %+v", m)
				}
				errs = append(errs, err)
			}
			return errs
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if errs := errorsOf(ctx); len(errs) != 1 || !errors.Is(errs[0], context.Canceled) {
			t.Errorf("with a cancelled context: %v", errs)
		}
		mustExec(t, db, "DROP TABLE fencedlock_marks")
		if errs := errorsOf(t.Context()); len(errs) != 1 || errs[0] == nil || !strings.Contains(errs[0].Error(), "call Migrate") {
			t.Errorf("without a table: %v", errs)
		}
	})
}

func TestMarksReportADamagedMark(t *testing.T) {
	db := openSQLite(t)
	g := newGuard(t, db, sqlguard.SQLite, nil)
	db.SetMaxOpenConns(1)
	mustExec(t, db, "PRAGMA ignore_check_constraints = on", "INSERT INTO fencedlock_marks VALUES ('a', 5, 1), ('b', -7, 1), ('c', 5, 1)")
	var seen []string
	for m, err := range g.Marks(t.Context()) {
		seen = append(seen, fmt.Sprint(m.Resource, err != nil))
	}
	if got := strings.Join(seen, " "); got != "afalse true" {
		t.Errorf("seen: %s", got)
	}
}
