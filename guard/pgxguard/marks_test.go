package pgxguard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/pgxguard"
	"github.com/fencedlock/fencedlock/internal/pgtest"
)

func TestMarksAreAllThereInOrderAndWithoutTheVersion(t *testing.T) {
	const n = 1203 // more than two pages
	pool := openPool(t, pgtest.Schema(t)+"&pool_max_conns=1")
	g := newGuard(t, pool, nil)
	mustExec(t, pool, fmt.Sprintf("INSERT INTO fencedlock_marks SELECT 'r' || to_char(i, 'FM00000'), i, 1 FROM generate_series(1, %d) i", n))
	if err := g.Seal(t.Context(), "Z ", 7); err != nil { // before r in bytes, behind it in most collations
		t.Fatal(err)
	}
	want := pgxguard.Mark{Resource: "Z ", Token: 7, Checks: 1}
	i := 0
	for m, err := range g.Marks(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if m != want {
			t.Fatalf("mark %d is %+v; want %+v", i, m, want)
		}
		if i%400 == 0 { // the loop's body can use the pool's only connection
			if high, err := g.Highest(t.Context(), m.Resource); high != m.Token || err != nil {
				t.Errorf("Highest inside the loop = %d, %v", high, err)
			}
		}
		i++
		want = pgxguard.Mark{Resource: fmt.Sprintf("r%05d", i), Token: guard.Token(i), Checks: 1}
	}
	if i != n+1 {
		t.Errorf("%d marks; want %d", i, n+1)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for m, err := range g.Marks(ctx) {
		if !errors.Is(err, context.Canceled) || m != (pgxguard.Mark{}) {
			t.Errorf("with an ended context: %+v, %v", m, err)
		}
	}
}

func TestMarksEndWithTheLoopAndAtADamagedMark(t *testing.T) {
	pool := openPool(t, pgtest.Schema(t)+"&pool_max_conns=1")
	g := newGuard(t, pool, nil)
	mustExec(t, pool, "INSERT INTO fencedlock_marks VALUES ('a', 1, 1), ('b', -7, 1), ('c', 3, 1)")
	for m, err := range g.Marks(t.Context()) {
		if m.Resource != "a" || err != nil {
			t.Errorf("%+v, %v; want a, which ends the loop", m, err)
		}
		break
	}
	var got []string
	for m, err := range g.Marks(t.Context()) {
		got = append(got, fmt.Sprint(m.Resource, err != nil))
		if err != nil && (!strings.Contains(err.Error(), `-7 for "b"`) || m != (pgxguard.Mark{})) {
			t.Errorf("%+v, %v; want an error about the mark", m, err)
		}
	}
	if s := strings.Join(got, " "); s != "afalse true" {
		t.Errorf("the marks are %s; want a and an error", s)
	}
}
