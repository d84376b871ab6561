//go:build unix

package redisguard_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/redisguard"
	"github.com/fencedlock/fencedlock/internal/redistest"
)

var count = redis.NewScript(`return redis.call('INCR', KEYS[1])`)

// lossy is a server with a direct guard, and another guard through a proxy.
type lossy struct {
	server  *redistest.Server
	proxy   *redistest.Proxy
	client  *redis.Client // through the proxy
	g       *redisguard.Guard
	through *redisguard.Guard
}

func startLossy(t *testing.T, o *redisguard.Options) *lossy {
	t.Helper()
	l := &lossy{server: redistest.Start(t)}
	l.proxy = redistest.NewProxy(t, l.server.Addr())
	// The other tests speak the newer protocol.
	l.client = redis.NewClient(&redis.Options{Addr: l.proxy.Addr, ContextTimeoutEnabled: true, Protocol: 2})
	t.Cleanup(func() { _ = l.client.Close() })
	l.g, l.through = newGuard(t, l.server.Client(t), nil), newGuard(t, l.client, o)
	// Redis knows the scripts from here on, so that the first thing to be lost is no NOSCRIPT.
	accepted(t, "Set", l.g.Set(t.Context(), "warm up", 1, "", 0))
	accepted(t, "Seal", l.g.Seal(t.Context(), "warm up", 1))
	accepted(t, "Run", l.g.Run(t.Context(), "warm up", 1, count, []string{l.g.Key("warm up", "n")}).Err())
	return l
}

func counter(t *testing.T, l *lossy, resource string) int {
	t.Helper()
	n, err := l.server.Client(t).Get(t.Context(), l.g.Key(resource, "n")).Int()
	if err != nil && err != redis.Nil {
		t.Fatal(err)
	}
	return n
}

// go-redis sends a command again in secret when a reply was lost, and a script then runs twice:
// https://github.com/redis/jedis/issues/3187, https://github.com/redis/go-redis/pull/1551
func TestLostReplyOfAScriptIsAppliedOnceAndAnsweredAgain(t *testing.T) {
	l := startLossy(t, nil)
	key := []string{l.g.Key("r", "n")}

	l.proxy.Fail(redistest.LoseReply)
	if n, err := count.Eval(t.Context(), l.client, []string{"plain"}).Int(); err != nil || n != 2 {
		t.Errorf("without the guard: %d, %v; the story needs a secret second run", n, err)
	}

	for tok := guard.Token(1); tok <= 2; tok++ {
		for range 2 { // raising the mark and leaving it
			before := counter(t, l, "r")
			l.proxy.Fail(redistest.LoseReply)
			n, err := l.through.Run(t.Context(), "r", tok, count, key).Int()
			if after := counter(t, l, "r"); err != nil || n != before+1 || after != before+1 {
				t.Errorf("token %d: Run = %d, %v; the counter went from %d to %d", tok, n, err, before, after)
			}
		}
	}
}

// What is answered again is what was answered first, whatever its form.
func TestLostRepliesOfEveryFormAreAnsweredAgain(t *testing.T) {
	l := startLossy(t, nil)
	for name, body := range map[string]string{
		"number":       `return 7`,
		"fraction":     `return 3.7`,
		"negative":     `return -9007199254740991`,
		"text":         `return 'a\0\r\nb'`,
		"empty text":   `return ''`,
		"large text":   `return string.rep('x', 100000)`,
		"status":       `return redis.status_reply('FINE')`,
		"nil":          `return nil`,
		"no return":    `local x = 1`,
		"true":         `return true`,
		"false":        `return false`,
		"list":         `return {1, 'b', {2, {3}}, redis.status_reply('FINE'), ''}`,
		"list cut":     `return {1, nil, 3}`,
		"empty list":   `return {}`,
		"error":        `return redis.error_reply('EMPTY not enough')`,
		"error (code)": `return redis.error_reply('READONLY this is the script talking')`,
	} {
		script := redis.NewScript(`redis.call('INCR', KEYS[1]) ` + body)
		key := []string{l.g.Key(name, "n")}
		first := l.g.Run(t.Context(), name, 5, script, key)
		plain := script.Run(t.Context(), l.server.Client(t), []string{"plain"})
		if !reflect.DeepEqual(first.Val(), plain.Val()) || (first.Err() == nil) != (plain.Err() == nil) || first.Err() != nil && first.Err().Error() != plain.Err().Error() {
			t.Errorf("%s: guarded %v, %v; plain %v, %v", name, first.Val(), first.Err(), plain.Val(), plain.Err())
		}
		l.proxy.Fail(redistest.LoseReply)
		again := l.through.Run(t.Context(), name, 6, script, key)
		if !reflect.DeepEqual(again.Val(), first.Val()) || !reflect.DeepEqual(again.Err(), first.Err()) {
			t.Errorf("%s: at first %v, %v; after a lost reply %v, %v", name, first.Val(), first.Err(), again.Val(), again.Err())
		}
		if n := counter(t, l, name); n != 2 {
			t.Errorf("%s: it ran %d times; want 2", name, n)
		}
	}
}

// go-redis repeats nothing in secret: the requests are those of the guard.
func TestRequestsAreCounted(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]redistest.Fault{"request": redistest.LoseRequest, "reply": redistest.LoseReply} {
		for client, wait := range map[string]int{"plain": 0, "one connection": 1} {
			t.Run(name+", "+client, func(t *testing.T) {
				l := startLossy(t, &redisguard.Options{Replicas: wait})
				before := l.proxy.Scripts()
				l.proxy.FailAll(fault)
				unknown(t, "Set", l.through.Set(t.Context(), "r", 5, "a", 0))
				if n := l.proxy.Scripts() - before; n != 4 {
					t.Errorf("%d requests were sent; want 4", n)
				}
			})
		}
	}
}

// A server that stands still takes requests and answers none. What was given up is carried out when it goes on.
func TestServerThatStandsStillLeavesTheOutcomeUnknown(t *testing.T) {
	l := startLossy(t, nil)
	accepted(t, "Set", l.through.Set(t.Context(), "r", 5, "a", 0))
	l.server.Pause(t)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err := l.through.Set(ctx, "r", 5, "b", 0)
	unknown(t, "Set", err)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Set = %v; want the context's error in it", err)
	}
	l.server.Resume(t)
	accepted(t, "Seal", l.through.Seal(t.Context(), "r", 5))
	settled, err := l.g.Get(t.Context(), "r")
	accepted(t, "Get", err)
	accepted(t, "Seal", l.through.Seal(t.Context(), "r", 5))
	holds(t, l.g, "r", settled, 5)
}

// Redis reads no argument that is too long, and closes the connection, so nothing was applied whatever became of the reply.
func TestValueThatRedisDoesNotTakeIsNotUnknown(t *testing.T) {
	c, g := start(t, "--proto-max-bulk-len", "1mb")
	accepted(t, "Set", g.Set(t.Context(), "r", 5, "a", 0))
	err := g.Set(t.Context(), "r", 5, strings.Repeat("x", 64<<20), 0)
	plant(t, "Set", err)
	if err == nil || !strings.Contains(err.Error(), "proto-max-bulk-len") {
		t.Errorf("Set = %.300v; want an error that says what to look at", err)
	}
	holds(t, g, "r", "a", 5)
	// What is as long as it may be.
	accepted(t, "Set", g.Set(t.Context(), "r", 5, strings.Repeat("x", 1<<20), 0))
	if n := c.StrLen(t.Context(), g.Key("r", "")).Val(); n != 1<<20 {
		t.Errorf("the value has %d bytes", n)
	}
}

// Nothing listens: nothing was sent, and that is known.
func TestServerThatIsAwayIsNotUnknown(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := func() *redis.Client {
		c := redis.NewClient(&redis.Options{Addr: s.Addr(), DialerRetries: 1})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	c := client()
	g, waiting := newGuard(t, c, nil), newGuard(t, client(), &redisguard.Options{Replicas: 1})
	s.Kill()
	// Connections of before break, and that proves nothing.
	_ = c.Ping(t.Context()).Err()
	c.AddHook(&beforeScript{see: func(cmd redis.Cmder) { _ = cmd.Args(); _ = cmd.String() }}) // one that logs
	plant(t, "Set", g.Set(t.Context(), "r", 5, "a", 0))
	plant(t, "Seal", g.Seal(t.Context(), "r", 5))
	plant(t, "Run", g.Run(t.Context(), "r", 5, count, []string{g.Key("r", "n")}).Err())
	_ = waiting.Seal(t.Context(), "r", 5)
	plant(t, "Set with replicas", waiting.Set(t.Context(), "r", 5, "a", 0))
	accepted(t, "Close", c.Close())
	plant(t, "Set of a closed client", g.Set(t.Context(), "r", 5, "a", 0))
}
