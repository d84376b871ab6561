package guard_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/fencedlock/fencedlock/guard"
)

func TestCheckAcceptsWhatIsNotLower(t *testing.T) {
	for _, c := range []struct {
		tok, highest guard.Token
		want         error
	}{
		{1, 0, nil}, {5, 4, nil}, {5, 5, nil}, {math.MaxInt64, math.MaxInt64, nil}, {math.MaxInt64, math.MaxInt64 - 1, nil},
		{4, 5, guard.ErrStale}, {1 << 53, 1<<53 + 1, guard.ErrStale}, {1, math.MaxInt64, guard.ErrStale},
		{0, 0, guard.ErrNoToken}, {-1, 0, guard.ErrNoToken}, {0, 5, guard.ErrNoToken}, {math.MinInt64, 5, guard.ErrNoToken},
	} {
		err := guard.Check("r", c.tok, c.highest)
		if !errors.Is(err, c.want) || (c.want == nil) != (err == nil) {
			t.Errorf("Check(%d, %d) = %v; want %v", c.tok, c.highest, err, c.want)
		}
		var stale *guard.StaleError
		if errors.As(err, &stale) && *stale != (guard.StaleError{Resource: "r", Token: c.tok, Highest: c.highest}) {
			t.Errorf("Check(%d, %d): %+v", c.tok, c.highest, *stale)
		}
	}
	if err := guard.Check("r", 5, -1); err == nil || errors.Is(err, guard.ErrStale) || errors.Is(err, guard.ErrNoToken) {
		t.Errorf("a negative mark gave %v; want an error of its own", err)
	}
}

func TestCheckResourceTellsNamesFromBytes(t *testing.T) {
	for _, name := range []string{"a", " ", "Job", "job ", "a/b#1%", "Ωmega 鍵 🔒", strings.Repeat("x", 512), strings.Repeat("é", 256)} {
		if err := guard.CheckResource(name); err != nil {
			t.Errorf("CheckResource(%.20q): %v", name, err)
		}
	}
	for _, name := range []string{"", "a\x00b", "\x00", "\xff", "a\xc3", "\xed\xa0\x80", strings.Repeat("x", 513), strings.Repeat("é", 257)} {
		err := guard.CheckResource(name)
		if err == nil {
			t.Errorf("CheckResource(%.20q) accepted it", name)
			continue
		}
		if len(err.Error()) > 300 {
			t.Errorf("CheckResource(%.20q): error of %d bytes repeats its input", name, len(err.Error()))
		}
		if got := guard.Check(name, 1, 0); got == nil {
			t.Errorf("Check accepted the name %.20q", name)
		}
	}
}

func TestContextCarriesTheInnermostToken(t *testing.T) {
	if _, _, ok := guard.FromContext(context.Background()); ok {
		t.Error("a plain context carries a token")
	}
	outer := guard.NewContext(context.Background(), "a", 1)
	inner := guard.NewContext(outer, "b", 2)
	if r, tok, ok := guard.FromContext(inner); r != "b" || tok != 2 || !ok {
		t.Errorf("inner: %q %d %v", r, tok, ok)
	}
	if r, tok, ok := guard.FromContext(outer); r != "a" || tok != 1 || !ok {
		t.Errorf("outer: %q %d %v", r, tok, ok)
	}
}

func TestIdempotencyKeyIsStableAndTellsPairsApart(t *testing.T) {
	// A change of this text breaks operations that are under way while a program is upgraded.
	const want = "9011e8ce-fa88-81c5-99e2-95039409c3c0"
	if got := guard.IdempotencyKey("orders/4711", "charge"); got != want {
		t.Errorf("key is %q, was %q in earlier releases", got, want)
	}
	seen := make(map[string][2]string)
	for _, p := range [][2]string{{"", ""}, {"a", "bc"}, {"ab", "c"}, {"abc", ""}, {"", "abc"}, {"a\x00", "bc"}, {"a", "\x00bc"}, {"bc", "a"}} {
		k := guard.IdempotencyKey(p[0], p[1])
		if q, dup := seen[k]; dup {
			t.Errorf("%q and %q have one key", p, q)
		}
		seen[k] = p
		if len(k) != 36 || k[14] != '8' || !strings.ContainsRune("89ab", rune(k[19])) {
			t.Errorf("%q is no UUID of version 8", k)
		}
	}
}
