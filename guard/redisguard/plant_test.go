//go:build unix

package redisguard_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/redisguard"
	"github.com/fencedlock/fencedlock/internal/redistest"
)

// Errors of the plant, such as CROSSSLOT, NOSCRIPT and READONLY, are taken for refusals:
// https://github.com/bsm/redislock/pull/94, https://github.com/redis/redis-doc/pull/2686
func TestErrorsOfThePlantAreNeitherStaleNorUnknown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code  string
		spoil func(t *testing.T, c *redis.Client)
	}{
		{"OOM", config("maxmemory", "1")},
		{"NOREPLICAS", config("min-replicas-to-write", "1")},
		{"NOPERM", do("acl", "setuser", "default", "-eval", "-evalsha")},
		{"ERR", do("acl", "setuser", "default", "-set")}, // "The user executing the script can't run this command",
		{"READONLY", do("replicaof", "127.0.0.1", "1")},
		{"MASTERDOWN", func(t *testing.T, c *redis.Client) {
			config("replica-serve-stale-data", "no")(t, c)
			do("replicaof", "127.0.0.1", "1")(t, c)
		}},
		{"NOAUTH", func(t *testing.T, c *redis.Client) {
			config("requirepass", "secret")(t, c)
			_ = c.Do(t.Context(), "client", "kill", "type", "normal", "skipme", "no").Err()
			_ = c.Ping(t.Context()).Err() // a connection that breaks would prove nothing
		}},
	} {
		t.Run(c.code, func(t *testing.T) {
			client, g := start(t)
			accepted(t, "Set", g.Set(t.Context(), "r", 5, "a", 0))
			c.spoil(t, client)
			for op, err := range map[string]error{
				"Set":       g.Set(t.Context(), "r", 6, "b", 0),
				"Seal":      g.Seal(t.Context(), "r", 6),
				"Run":       g.Run(t.Context(), "r", 6, count, []string{g.Key("r", "n")}).Err(),
				"Set, late": g.Set(t.Context(), "r", 4, "b", 0), // a mark that a replica has need not be the latest
			} {
				if op == "Set, late" && errors.Is(err, guard.ErrStale) {
					continue // it was seen, whatever the server thinks of writes
				}
				plant(t, op, err)
				if err != nil && !strings.Contains(err.Error(), c.code+" ") {
					t.Errorf("%s: %v; want Redis's own words, %s", op, err, c.code)
				}
			}
			if c.code == "READONLY" || c.code == "MASTERDOWN" { // nor does a replica answer to reads
				_, err := g.Get(t.Context(), "r")
				plant(t, "Get", err)
				_, err = g.Highest(t.Context(), "r")
				plant(t, "Highest", err)
			}
		})
	}
}

func config(name, value string) func(*testing.T, *redis.Client) {
	return do("config", "set", name, value)
}

func do(args ...any) func(*testing.T, *redis.Client) {
	return func(t *testing.T, c *redis.Client) {
		t.Helper()
		if err := c.Do(t.Context(), args...).Err(); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
}

func TestFlushedScriptsAreSentAgain(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]*redisguard.Options{"plain": nil, "one connection": {Replicas: 1, ReplicaTimeout: 30 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t)
			s.StartReplica(t)
			c := s.Client(t)
			g := newGuard(t, c, o)
			for tok := guard.Token(1); tok < 4; tok++ {
				accepted(t, "SCRIPT FLUSH", c.ScriptFlush(t.Context()).Err())
				accepted(t, "Set", g.Set(t.Context(), "r", tok, "a", 0))
				accepted(t, "SCRIPT FLUSH", c.ScriptFlush(t.Context()).Err())
				if n, err := g.Run(t.Context(), "r", tok, count, []string{g.Key("r", "n")}).Int(); n != int(tok) || err != nil {
					t.Errorf("Run = %d, %v", n, err)
				}
				accepted(t, "SCRIPT FLUSH", c.ScriptFlush(t.Context()).Err())
				holds(t, g, "r", "a", tok)
			}
		})
	}
}

// A right that is missing for the write alone shows after the mark was raised: the write is not applied, and is not
// taken for one that was when it is asked for again.
func TestWriteThatIsRefusedAfterTheMarkWasRaisedIsNotApplied(t *testing.T) {
	l := startLossy(t, nil)
	c := l.server.Client(t)
	accepted(t, "Set", l.g.Set(t.Context(), "r", 5, "a", 0))
	accepted(t, "Del", l.g.Del(t.Context(), "warm up", 5))
	do("acl", "setuser", "default", "-del")(t, c)
	plant(t, "Del", l.through.Del(t.Context(), "r", 6))
	l.proxy.Fail(redistest.LoseReply)
	plant(t, "Del, with a lost reply", l.through.Del(t.Context(), "r", 7))
	do("acl", "setuser", "default", "+del")(t, c)
	holds(t, l.g, "r", "a", 7)
}

// A mark that is there and cannot be read is no mark of zero: https://github.com/caddyserver/certmagic/issues/232,
// https://github.com/caddyserver/caddy/issues/4448
func TestUnreadableMarkIsAnErrorThatNamesItsKey(t *testing.T) {
	c, g := start(t)
	key := g.Key("r", "") + "#mark"
	long := strings.Repeat("9", 25)
	for name, spoil := range map[string]func() error{
		"empty":         func() error { return c.Set(t.Context(), key, "", 0).Err() },
		"NULs":          func() error { return c.Set(t.Context(), key, "\x00\x00", 0).Err() },
		"number":        func() error { return c.Set(t.Context(), key, "5", 0).Err() },
		"other version": func() error { return c.Set(t.Context(), key, "2 5 N  d", 0).Err() },
		"cut":           func() error { return c.Set(t.Context(), key, "1 5 N", 0).Err() },
		"zero":          func() error { return c.Set(t.Context(), key, "1 0 N  d", 0).Err() },
		"leading zero":  func() error { return c.Set(t.Context(), key, "1 05 N  d", 0).Err() },
		"negative":      func() error { return c.Set(t.Context(), key, "1 -5 N  d", 0).Err() },
		"double":        func() error { return c.Set(t.Context(), key, "1 1e+17 N  d", 0).Err() },
		"too large":     func() error { return c.Set(t.Context(), key, "1 9223372036854775808 N  d", 0).Err() },
		"far too large": func() error { return c.Set(t.Context(), key, "1 "+long+" N  d", 0).Err() },
		"a hash":        func() error { return c.HSet(t.Context(), key, "token", "5").Err() },
	} {
		accepted(t, "DEL", c.Del(t.Context(), key).Err())
		accepted(t, name, spoil())
		_, errHighest := g.Highest(t.Context(), "r")
		for op, err := range map[string]error{
			"Set":     g.Set(t.Context(), "r", 7, "b", 0),
			"Del":     g.Del(t.Context(), "r", 7),
			"Seal":    g.Seal(t.Context(), "r", 7),
			"Run":     g.Run(t.Context(), "r", 7, count, []string{g.Key("r", "n")}).Err(),
			"Highest": errHighest,
		} {
			plant(t, name+", "+op, err)
			if err != nil && !strings.Contains(err.Error(), key) {
				t.Errorf("%s, %s: %v; want the key %q in it", name, op, err, key)
			}
		}
		if n := c.Exists(t.Context(), g.Key("r", ""), g.Key("r", "n")).Val(); n != 0 {
			t.Errorf("%s: something was written", name)
		}
	}
}

func TestOutcomesAreReportedOnce(t *testing.T) {
	c := redistest.Start(t).Client(t)
	type outcome struct {
		resource string
		tok      guard.Token
		err      error
	}
	var got []outcome
	g := newGuard(t, c, &redisguard.Options{OnOutcome: func(_ context.Context, resource string, tok guard.Token, err error) {
		got = append(got, outcome{resource, tok, err})
	}})
	want := []outcome{
		{"r", 5, g.Set(t.Context(), "r", 5, "a", 0)},
		{"r", 4, g.Del(t.Context(), "r", 4)},
		{"r", 6, g.Seal(t.Context(), "r", 6)},
		{"r", 0, g.Seal(t.Context(), "r", 0)},
		{"", 6, g.Set(t.Context(), "", 6, "a", 0)},
		{"r", 6, g.Set(t.Context(), "r", 6, struct{}{}, 0)},
		{"r", 6, g.Run(t.Context(), "r", 6, count, []string{"elsewhere"}).Err()},
		{"r", 6, g.Run(t.Context(), "r", 6, redis.NewScript(`error('x')`), nil).Err()},
	}
	if err := g.Run(t.Context(), "r", 6, redis.NewScript(`return nil`), nil).Err(); err != redis.Nil {
		t.Errorf("Run = %v; want redis.Nil", err)
	}
	want = append(want, outcome{"r", 6, nil})
	if len(got) != len(want) {
		t.Fatalf("%d outcomes; want %d: %v", len(got), len(want), got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("outcome %d is %v; want %v", i, got[i], want[i])
		}
	}
}
