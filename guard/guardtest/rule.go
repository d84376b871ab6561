package guardtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/fencedlock/fencedlock/guard"
)

// checkOrder: what is not lower is applied, what is lower is refused and changes nothing.
func checkOrder(ctx context.Context, s Store) error {
	var f findings
	const r = "order"
	f.holds(ctx, s, r, "", 0)
	f.accepted("first write, token 5", s.Write(ctx, r, 5, "a"))
	f.holds(ctx, s, r, "a", 5)
	f.accepted("second write of the same holder", s.Write(ctx, r, 5, "b"))
	f.holds(ctx, s, r, "b", 5)
	f.stale("write with 4 after 5", s.Write(ctx, r, 4, "late"), r, 4, 5)
	f.holds(ctx, s, r, "b", 5)
	f.accepted("next holder, token 9", s.Write(ctx, r, 9, "c"))
	f.stale("write with 5 after 9", s.Write(ctx, r, 5, "late"), r, 5, 9)
	f.stale("write with 8 after 9", s.Write(ctx, r, 8, "late"), r, 8, 9)
	f.holds(ctx, s, r, "c", 9)
	f.accepted("9 again after a refusal", s.Write(ctx, r, 9, "d"))
	f.accepted("same content with a higher token", s.Write(ctx, r, 10, "d"))
	f.stale("same content with a lower token", s.Write(ctx, r, 9, "d"), r, 9, 10)
	f.holds(ctx, s, r, "d", 10)
	f.holds(ctx, s, "order, another", "", 0)
	return f.err()
}

// checkBadTokens: what is no token is refused, also where nothing was ever marked, and is no "no fencing, please".
func checkBadTokens(ctx context.Context, s Store) error {
	var f findings
	refused := func(r, value string, mark guard.Token) {
		for _, tok := range []guard.Token{0, -1, math.MinInt64} {
			if err := s.Write(ctx, r, tok, "bad"); !errors.Is(err, guard.ErrNoToken) {
				f.add("Write with token %d: %v; want ErrNoToken", int64(tok), err)
			}
			if err := s.Seal(ctx, r, tok); !errors.Is(err, guard.ErrNoToken) {
				f.add("Seal with token %d: %v; want ErrNoToken", int64(tok), err)
			}
			if s.Delete != nil {
				if err := s.Delete(ctx, r, tok); !errors.Is(err, guard.ErrNoToken) {
					f.add("Delete with token %d: %v; want ErrNoToken", int64(tok), err)
				}
			}
		}
		f.holds(ctx, s, r, value, mark)
	}
	refused("bad tokens", "", 0)
	f.accepted("write", s.Write(ctx, "bad tokens", 1, "a"))
	refused("bad tokens", "a", 1)
	return f.err()
}

// checkWideTokens: neighbours beyond 2^53 stay apart, which they do not in a float64.
func checkWideTokens(ctx context.Context, s Store) error {
	var f findings
	const r = "wide tokens"
	last := guard.Token(0)
	// The step from 9 to 10 digits of length is there for those that compare texts.
	for _, tok := range []guard.Token{9, 10, 99, 100, 1<<53 - 1, 1 << 53, 1<<53 + 1, 1<<53 + 2, math.MaxInt64 - 1, math.MaxInt64} {
		f.accepted("token "+tok.String(), s.Write(ctx, r, tok, tok.String()))
		if last != 0 {
			f.stale("token "+last.String()+" after "+tok.String(), s.Write(ctx, r, last, "late"), r, last, tok)
			f.stale("Seal with "+last.String()+" after "+tok.String(), s.Seal(ctx, r, last), r, last, tok)
		}
		f.holds(ctx, s, r, tok.String(), tok)
		last = tok
	}
	return f.err()
}

// checkBadNames: what names nothing is refused as such.
func checkBadNames(ctx context.Context, s Store) error {
	var f findings
	for _, r := range []string{"", "\x00", "a\x00b", "\xff", "a\xc3", strings.Repeat("x", 513), strings.Repeat("é", 257)} {
		refused := func(op string, err error) {
			if err == nil || errors.Is(err, guard.ErrStale) || errors.Is(err, guard.ErrUnknown) || errors.Is(err, guard.ErrNoToken) {
				f.add("%s on the name %.20q: %v; want an error about the name", op, r, err)
			}
		}
		refused("Write", s.Write(ctx, r, 5, "a"))
		refused("Seal", s.Seal(ctx, r, 5))
		_, err := s.Highest(ctx, r)
		refused("Highest", err)
		if s.Delete != nil {
			refused("Delete", s.Delete(ctx, r, 5))
		}
	}
	return f.err()
}

// names are all different, byte by byte; some are alike to storages that fold, trim, escape or cut.
var names = []string{
	"a", "A", " ", "  ", "job", "Job", "JOB", "job ", "job  ", " job", "job\n", "job\t", "Jób", "jo\u0301b", "j\u00f3b",
	"a/b", "a/", "/a", "a//b", "a%2Fb", "a\\b", ".", "..", "../a", "a#1", "a:b", "{a}", "{a}b", "*", "a*", "_", "%", "-",
	"'; DROP TABLE x; --", "\"", "$1", "?", "null", "0", "00", "1e3", "ß", "ss", "鍵🔒", "\u200b", "\ufeff", "\x7f", "\x01",
	strings.Repeat("x", 512), strings.Repeat("x", 511) + "y", "y" + strings.Repeat("x", 511), strings.Repeat("é", 256), strings.Repeat("x", 255),
}

// checkNames: each name has a mark and content of its own.
func checkNames(ctx context.Context, s Store) error {
	var f findings
	for i, r := range names {
		if got, err := s.Highest(ctx, r); err != nil || got != 0 {
			f.add("Highest of the new name %.20q = %d, %v; want 0", r, int64(got), err)
		}
		tok := guard.Token(100 + i)
		f.accepted(fmt.Sprintf("write to %.20q", r), s.Write(ctx, r, tok, tok.String()))
	}
	for i, r := range names {
		tok := guard.Token(100 + i)
		f.holds(ctx, s, r, tok.String(), tok)
		f.stale(fmt.Sprintf("late write to %.20q", r), s.Write(ctx, r, 99, "late"), r, 99, tok)
	}
	return f.err()
}

// values are contents that storages cut, trim, escape or take for none.
var values = []string{
	"a", " ", "0", "null", " a ", "a\n", "\t", "'", `"`, "\\", "$1 ? %s", "<é鍵🔒>", strings.Repeat("x", 255), strings.Repeat("x", 256),
	strings.Repeat("é", 1<<15), strings.Repeat("x", 1<<16), strings.Repeat("0123456789abcde\n", 1<<16),
}

// checkValues: content of no byte, one byte and 1 MiB comes back as it was written, and is guarded like any other.
func checkValues(ctx context.Context, s Store) error {
	var f findings
	same := func(r, want string) {
		if got, err := s.Read(ctx, r); err != nil || got != want {
			f.add("wrote %d bytes, %.20q; Read = %d bytes, %.20q, %v", len(want), want, len(got), got, err)
		}
	}
	for i, v := range values {
		const r = "values"
		tok := guard.Token(10 + 2*i)
		f.accepted(fmt.Sprintf("write of %d bytes", len(v)), s.Write(ctx, r, tok, v))
		same(r, v)
		f.accepted("write of nothing after it", s.Write(ctx, r, tok+1, ""))
		f.holds(ctx, s, r, "", tok+1)
		f.stale(fmt.Sprintf("late write of %d bytes", len(v)), s.Write(ctx, r, tok, v), r, tok, tok+1)
		f.holds(ctx, s, r, "", tok+1)
	}
	// Nothing is content, too: it is guarded where nothing was before, and cannot be told from no content by reading.
	f.accepted("first write of nothing", s.Write(ctx, "values, empty", 5, ""))
	f.holds(ctx, s, "values, empty", "", 5)
	f.stale("write below it", s.Write(ctx, "values, empty", 4, "late"), "values, empty", 4, 5)
	// A refused write of nothing does not empty what is there.
	large := values[len(values)-1]
	f.accepted("large write", s.Write(ctx, "values, large", 5, large))
	f.stale("late write of nothing", s.Write(ctx, "values, large", 4, ""), "values, large", 4, 5)
	same("values, large", large)
	return f.err()
}

// checkCancelled: a call whose context has ended before does nothing and says why.
func checkCancelled(ctx context.Context, s Store) error {
	var f findings
	f.accepted("write", s.Write(ctx, "cancelled", 5, "a"))
	over, cancel := context.WithCancel(ctx)
	cancel()
	refused := func(op string, err error) {
		if !errors.Is(err, context.Canceled) || errors.Is(err, guard.ErrUnknown) || errors.Is(err, guard.ErrStale) {
			f.add("%s with a cancelled context: %v; want context.Canceled and nothing else", op, err)
		}
	}
	for _, r := range []string{"cancelled", "cancelled and new"} {
		refused("Write", s.Write(over, r, 6, "b"))
		refused("Seal", s.Seal(over, r, 6))
		_, err := s.Highest(over, r)
		refused("Highest", err)
		if s.Delete != nil {
			refused("Delete", s.Delete(over, r, 6))
		}
	}
	f.holds(ctx, s, "cancelled", "a", 5)
	f.holds(ctx, s, "cancelled and new", "", 0)
	return f.err()
}

// checkManyResources: marks are not kept for the latest or the luckiest only, in a cache that drops some.
func checkManyResources(ctx context.Context, s Store) error {
	var f findings
	const many = 300
	name := func(i int) string { return fmt.Sprintf("many %d", i) }
	for i := range many {
		f.accepted(fmt.Sprintf("write to %.20q", name(i)), s.Write(ctx, name(i), 5, "a"))
	}
	for i := 0; i < many; i += 10 { // the first is the oldest, whatever the order of eviction
		f.stale(fmt.Sprintf("late write to %.20q of %d", name(i), many), s.Write(ctx, name(i), 4, "late"), name(i), 4, 5)
		f.holds(ctx, s, name(i), "a", 5)
	}
	return f.err()
}
