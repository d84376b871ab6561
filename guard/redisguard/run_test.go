//go:build unix

package redisguard_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/redisguard"
	"github.com/fencedlock/fencedlock/internal/redistest"
)

type marshaler struct{ err error }

func (m marshaler) MarshalBinary() ([]byte, error) { return []byte("marshalled"), m.err }

func TestScriptsSeeTheirOwnKeysAndArguments(t *testing.T) {
	c, g := start(t)
	echo := redis.NewScript(`return {#KEYS, KEYS, #ARGV, ARGV, select('#', ...)}`)
	text := "p"
	for name, args := range map[string][]any{
		"none":    nil,
		"kinds":   {"a", []byte("b\x00"), 1, int64(-2), uint8(3), 1.5, true, time.Second, nil, &text, marshaler{}},
		"one":     {"x"},
		"strings": {[]string{"a", "b"}}, // go-redis unfolds a single list
		"anys":    {[]any{"a", 1}},
		"map":     {map[string]any{"k": "v"}},
		"nothing": {nil},
	} {
		for _, keys := range [][]string{nil, {g.Key("r", "")}, {g.Key("r", "a"), "r", "x{r}y", g.Key("r", "b")}} {
			plain, err := echo.Run(t.Context(), c, keys, args...).Result()
			accepted(t, "plain", err)
			got, err := g.Run(t.Context(), "r", 5, echo, keys, args...).Result()
			if err != nil || !reflect.DeepEqual(got, plain) {
				t.Errorf("%s, %d keys: %v, %v; want %v", name, len(keys), got, err, plain)
			}
		}
	}
}

func TestScriptsAreTakenAsTheyAre(t *testing.T) {
	_, g := start(t)
	for source, want := range map[string]any{
		"return 1 -- comment":                                 int64(1),
		"local function f() return KEYS[1] end return f()":    g.Key("r", ""),
		"return loadstring('return KEYS[1]')()":               g.Key("r", ""), // not the mark's
		"return loadstring('return #KEYS + #ARGV')()":         int64(2),
		"-- comment\nreturn ARGV[1]":                          "x",
		"return redis.sha1hex('')":                            "da39a3ee5e6b4b0d3255bfef95601890afd80709",
		"local key, mark, save, last = 1, 2, 3, 4 return key": int64(1),
		"return tostring(fencedlock_single)":                  nil, // strict: there is no such global
	} {
		got, err := g.Run(t.Context(), "r", 5, redis.NewScript(source), []string{g.Key("r", "")}, "x").Result()
		if want == nil {
			unknown(t, source, err)
		} else if err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", source, got, err, want)
		}
	}
	if got, err := g.Run(t.Context(), "r", 5, redis.NewScriptServerSHA("return 7"), nil).Int(); got != 7 || err != nil {
		t.Errorf("server SHA: %d, %v", got, err)
	}
}

// What can be seen to be wrong is refused at once, on a single server as in a cluster.
func TestRunRefusesWhatCannotBeGuarded(t *testing.T) {
	c, g := start(t)
	accepted(t, "Close", c.Close()) // whatever is sent now has another error
	boom := errors.New("boom")
	ok := []string{g.Key("r", "n")}
	for what, run := range map[string]func() error{
		"need not lie in the same slot": func() error { return g.Run(t.Context(), "r", 5, count, []string{g.Key("r", "n"), "elsewhere"}).Err() },
		"{r}":                           func() error { return g.Run(t.Context(), "r", 5, count, []string{g.Key("s", "n")}).Err() },
		`{%7Br%7D}`:                     func() error { return g.Run(t.Context(), "{r}", 5, count, []string{g.Key("r", "n")}).Err() },
		"the guard's own":               func() error { return g.Run(t.Context(), "r", 5, count, []string{g.Key("r", "") + "#mark"}).Err() },
		"script is nil":                 func() error { return g.Run(t.Context(), "r", 5, nil, ok).Err() },
		"#!": func() error {
			return g.Run(t.Context(), "r", 5, redis.NewScript("#!lua flags=no-writes\nreturn 1"), ok).Err()
		},
		"argument 2": func() error { return g.Run(t.Context(), "r", 5, count, ok, "a", make(chan int)).Err() },
		"boom":       func() error { return g.Run(t.Context(), "r", 5, count, ok, "a", marshaler{boom}).Err() },
		"empty name": func() error { return g.Run(t.Context(), "", 5, count, ok).Err() },
		"negative":   func() error { return g.Set(t.Context(), "r", 5, "a", -time.Second) },
		"[]string":   func() error { return g.Set(t.Context(), "r", 5, []string{"a"}, 0) },
	} {
		err := run()
		plant(t, what, err)
		if err != nil && (!strings.Contains(err.Error(), what) || strings.Contains(err.Error(), "closed")) {
			t.Errorf("%v; want %q in it", err, what)
		}
	}
}

// Redis has no rollback: a script that breaks off leaves what it wrote, under the mark that was raised before.
func TestScriptThatBreaksOffIsUnknownAndNotRunAgain(t *testing.T) {
	l := startLossy(t, nil)
	key := []string{l.g.Key("r", "n")}
	for i, body := range []string{
		`redis.call('INCR', KEYS[1]) error('boom')`,
		`redis.call('INCR', KEYS[1]) local x = nil; return x.y`,
		`redis.call('INCR', KEYS[1]) return redis.call('LPUSH', KEYS[1], 'x')`,
		`redis.call('INCR', KEYS[1]) local function f() return f() + 1 end return f()`,
	} {
		script := redis.NewScript(body)
		tok := guard.Token(5 + 2*i)
		err := l.g.Run(t.Context(), "r", tok, script, key).Err()
		unknown(t, body, err)
		if err == nil || !strings.Contains(err.Error(), "broke off") {
			t.Errorf("%s: %v; want Redis's words", body, err)
		}
		l.proxy.Fail(redistest.LoseReply)
		unknown(t, body+", with a lost reply", l.through.Run(t.Context(), "r", tok+1, script, key).Err())
		if n := counter(t, l, "r"); n != 2*(i+1) {
			t.Errorf("%s: the counter is %d; want %d", body, n, 2*(i+1))
		}
		stale(t, "an earlier holder", l.g.Set(t.Context(), "r", tok, "late", 0), "r", tok, tok+1)
	}
	err := l.g.Run(t.Context(), "r", 100, redis.NewScript(`this is no Lua`), key).Err()
	plant(t, "no Lua", err)
	if high, _ := l.g.Highest(t.Context(), "r"); high == 100 {
		t.Error("a script that cannot be compiled raised the mark")
	}
}

// An error inside of a list would leave go-redis in the middle of the reply, and the next reply would be another's.
func TestErrorsInsideOfListsArriveAsTexts(t *testing.T) {
	_, g := start(t)
	script := redis.NewScript(`redis.call('SET', KEYS[1], 'x')
		return {1, redis.error_reply('OOM x'), {redis.pcall('LPUSH', KEYS[1], 'y'), 2}, 'end'}`)
	for range 3 {
		got, err := g.Run(t.Context(), "r", 5, script, []string{g.Key("r", "list")}).Slice()
		want := fmt.Sprint([]any{1, "OOM x", []any{"WRONGTYPE Operation against a key holding the wrong kind of value", 2}, "end"})
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("Run = %v, %v; want %v", got, err, want)
		}
	}
	deep := redis.NewScript(`local t = {} for i = 1, 40 do t = {t} end return t`)
	accepted(t, "deep", g.Run(t.Context(), "r", 5, deep, nil).Err())
	circle := redis.NewScript(`local t = {} t[1] = t return t`)
	accepted(t, "circle", g.Run(t.Context(), "r", 5, circle, nil).Err())
	holds(t, g, "r", "", 5)
}

func TestScriptsOwnErrorIsHandedOn(t *testing.T) {
	_, g := start(t)
	err := g.Run(t.Context(), "r", 5, redis.NewScript(`return redis.error_reply('EMPTY not enough')`), nil).Err()
	if !redis.HasErrorPrefix(err, "EMPTY") || err.Error() != "EMPTY not enough" {
		t.Errorf("Run = %v", err)
	}
	plant(t, "the script's own error", err)
}

// A script that keeps its writes from replicas does not keep the mark from them.
func TestScriptCannotKeepTheMarkFromReplicas(t *testing.T) {
	l := startLossy(t, nil)
	replica := l.server.StartReplica(t)
	script := redis.NewScript(`redis.set_repl(redis.REPL_NONE) redis.call('SET', KEYS[1], 'x') return 'fine'`)
	accepted(t, "Run", l.g.Run(t.Context(), "r", 5, script, []string{l.g.Key("r", "n")}).Err())
	mark := func(c *redis.Client) string { return c.Get(t.Context(), l.g.Key("r", "")+"#mark").Val() }
	want := mark(l.server.Client(t))
	if !strings.Contains(want, "fine") {
		t.Errorf("the mark is %q, without the reply", want)
	}
	sure := newGuard(t, l.server.Client(t), &redisguard.Options{Replicas: 1, ReplicaTimeout: 30 * time.Second})
	accepted(t, "another resource, later", sure.Seal(t.Context(), "s", 5))
	if got := mark(replica.Client(t)); got != want {
		t.Errorf("the replica has the mark %q; want %q", got, want)
	}
}

func TestTimeToLiveIsTheValuesAlone(t *testing.T) {
	c, g := start(t)
	accepted(t, "Set", g.Set(t.Context(), "r", 5, "a", time.Hour))
	if ttl := c.PTTL(t.Context(), g.Key("r", "")).Val(); ttl <= 59*time.Minute || ttl > time.Hour {
		t.Errorf("the value lives for %v; want an hour", ttl)
	}
	if ttl := c.TTL(t.Context(), g.Key("r", "")+"#mark").Val(); ttl != -1 {
		t.Errorf("the mark lives for %v; want for ever", ttl)
	}
	accepted(t, "Set", g.Set(t.Context(), "r", 5, "b", 0))
	if ttl := c.TTL(t.Context(), g.Key("r", "")).Val(); ttl != -1 {
		t.Errorf("the value lives for %v; want for ever", ttl)
	}
	accepted(t, "Set", g.Set(t.Context(), "r", 5, "c", time.Microsecond)) // rounded up, not down to for ever
	time.Sleep(5 * time.Millisecond)
	holds(t, g, "r", "", 5)
	stale(t, "after the value's end", g.Set(t.Context(), "r", 4, "late", 0), "r", 4, 5)
}

func TestTwoPrefixesAreTwoSetsOfMarks(t *testing.T) {
	c, g := start(t)
	accepted(t, "Set", g.Set(t.Context(), "r", 5, "a", 0))
	other := newGuard(t, c, &redisguard.Options{Prefix: "other:"})
	holds(t, other, "r", "", 0)
	accepted(t, "Set", other.Set(t.Context(), "r", 4, "b", 0))
	holds(t, g, "r", "a", 5)
}
