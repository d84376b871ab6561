//go:build unix

package redisguard_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/fencedlock/guard"
)

// The numbers of Lua are doubles: neighbours beyond 2^53 are equal, and large ones become texts such as 1e+17.
// https://github.com/redis/redis/issues/3224, https://github.com/redis/redis/issues/1118, https://github.com/redis/redis/pull/13115
func TestTokensThatDoublesMergeStayApart(t *testing.T) {
	c, g := start(t)
	for _, mark := range []guard.Token{1<<53 + 1, 1<<53 + 3, 99_999_999_999_999, 100_000_000_000_000, 100_000_000_000_000_000, 100_000_000_000_000_001, math.MaxInt64} {
		r := fmt.Sprint(int64(mark))
		accepted(t, r, g.Set(t.Context(), r, mark, "new", 0))
		late := mark - 1
		stale(t, "one below", g.Set(t.Context(), r, late, "late", 0), r, late, mark)
		stale(t, "Run, one below", g.Run(t.Context(), r, late, count, []string{g.Key(r, "n")}).Err(), r, late, mark)
		stale(t, "Seal, one below", g.Seal(t.Context(), r, late), r, late, mark)
		holds(t, g, r, "new", mark)
		// Fewer digits are a smaller number, whatever they are.
		stale(t, "9", g.Set(t.Context(), r, 9, "late", 0), r, 9, mark)
		text, err := c.Get(t.Context(), g.Key(r, "")+"#mark").Result()
		if want := fmt.Sprintf("1 %d ", int64(mark)); err != nil || len(text) < len(want) || text[:len(want)] != want {
			t.Errorf("the mark is stored as %q, %v; want %q…", text, err, want)
		}
	}

	// What it is for: the comparison that people write.
	naive := redis.NewScript(`if tonumber(ARGV[1]) < tonumber(redis.call('GET', KEYS[1]) or '0') then return 'stale' end
		redis.call('SET', KEYS[1], tonumber(ARGV[1])) return redis.call('GET', KEYS[1])`)
	for _, tok := range []int64{1<<53 + 1, 1 << 53} { // the second is lower
		if got, err := naive.Run(t.Context(), c, []string{"naive"}, tok).Text(); err != nil || got == "stale" {
			t.Errorf("tonumber, %d: %q, %v; the story needs it to be accepted", tok, got, err)
		}
	}
	if got := naive.Run(t.Context(), c, []string{"naive2"}, int64(100_000_000_000_000_000)).Val(); got != "1e+17" {
		t.Errorf("tonumber stores %q; the story needs 1e+17", got)
	}
}

// https://github.com/awslabs/amazon-dynamodb-lock-client/issues/1, https://github.com/bsm/redislock/pull/94
func TestWhatIsNoTokenIsRefusedBeforeAnythingIsSent(t *testing.T) {
	c, g := start(t)
	accepted(t, "Close", c.Close()) // whatever is sent now has another error
	for _, tok := range []guard.Token{0, -1, math.MinInt64} {
		for op, err := range map[string]error{
			"Set":  g.Set(t.Context(), "r", tok, "x", 0),
			"Del":  g.Del(t.Context(), "r", tok),
			"Seal": g.Seal(t.Context(), "r", tok),
			"Run":  g.Run(t.Context(), "r", tok, count, []string{g.Key("r", "n")}).Err(),
		} {
			if !errors.Is(err, guard.ErrNoToken) {
				t.Errorf("%s with %d: %v; want ErrNoToken", op, int64(tok), err)
			}
		}
	}
}
