//go:build unix

package redisguard_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/redisguard"
	"github.com/fencedlock/fencedlock/internal/redistest"
)

// A reply is lost, others write, and then the operation is sent again: the mark tells what became of it, unless eight
// other Guards have written since with a token that does not.
func TestMarkTellsWhatBecameOfALostOperation(t *testing.T) {
	t.Parallel()
	const request, reply = redistest.LoseRequest, redistest.LoseReply
	breaks := redis.NewScript(`redis.call('INCR', KEYS[1]) error('boom')`)
	says := redis.NewScript(`redis.call('INCR', KEYS[1]) return redis.error_reply('EMPTY x')`)
	type want struct {
		stale, unknown bool
		words          string
		ran            int
	}
	for name, c := range map[string]struct {
		lost   redistest.Fault
		others int
		tok    guard.Token // of the others
		script *redis.Script
		want   want
	}{
		"request, one other":               {request, 1, 5, count, want{ran: 1}},
		"reply, one other":                 {reply, 1, 5, count, want{unknown: true, words: "it was applied", ran: 1}},
		"reply, the script's error":        {reply, 1, 5, says, want{unknown: true, words: "it was applied, and the script returned an error", ran: 1}},
		"reply, the script breaks off":     {reply, 1, 5, breaks, want{unknown: true, words: "broke off", ran: 1}},
		"request, a higher token":          {request, 1, 6, count, want{stale: true}},
		"reply, a higher token":            {reply, 1, 6, count, want{unknown: true, words: "it was applied", ran: 1}},
		"request, seven others":            {request, 7, 5, count, want{ran: 1}},
		"reply, seven others":              {reply, 7, 5, count, want{unknown: true, words: "it was applied", ran: 1}},
		"request, eight others":            {request, 8, 5, count, want{unknown: true, words: "eight other Guards"}},
		"reply, eight others":              {reply, 8, 5, count, want{unknown: true, words: "eight other Guards", ran: 1}},
		"reply, eight with a higher token": {reply, 8, 6, count, want{unknown: true, words: "eight other Guards", ran: 1}},
		"request, eight with a lower one":  {request, 8, 4, count, want{ran: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			var outcomes []error
			l := startLossy(t, &redisguard.Options{OnOutcome: func(_ context.Context, _ string, _ guard.Token, err error) { outcomes = append(outcomes, err) }})
			for _, s := range []*redis.Script{breaks, says} {
				_ = l.g.Run(t.Context(), "warm up", 1, s, []string{l.g.Key("warm up", "m")}).Err()
			}
			l.client.AddHook(&beforeScript{call: func(n int) error {
				if n == 2 {
					for range c.others {
						accepted(t, "another Guard", newGuard(t, l.server.Client(t), nil).Set(t.Context(), "r", c.tok, "other", 0))
					}
				}
				return nil
			}})
			l.proxy.Fail(c.lost)
			err := l.through.Run(t.Context(), "r", 5, c.script, []string{l.g.Key("r", "n")}).Err()
			switch {
			case c.want.stale:
				stale(t, "Run", err, "r", 5, c.tok)
			case c.want.unknown:
				unknown(t, "Run", err)
				if !strings.Contains(err.Error(), c.want.words) {
					t.Errorf("Run = %v; want %q in it", err, c.want.words)
				}
			default:
				accepted(t, "Run", err)
			}
			if n := counter(t, l, "r"); n != c.want.ran {
				t.Errorf("it ran %d times; want %d", n, c.want.ran)
			}
			if len(outcomes) != 1 || outcomes[0] != err {
				t.Errorf("OnOutcome got %v", outcomes)
			}
			holds(t, l.g, "r", "other", max(c.tok, guard.Token(map[bool]int{true: 5}[c.want.ran == 1])))
		})
	}
}

// What has no reply needs none: it was applied, or not.
func TestLostSetAndDelAreToldByTheMarkAlone(t *testing.T) {
	for tok := guard.Token(5); tok <= 6; tok++ { // of the other one
		l := startLossy(t, nil)
		accepted(t, "Del", l.g.Del(t.Context(), "warm up", 1))
		other := func() { accepted(t, "another Guard", l.g.Set(t.Context(), "r", tok, "other", 0)) }
		n := 0
		l.client.AddHook(&beforeScript{call: func(int) error {
			if n++; n%2 == 0 {
				other()
			}
			return nil
		}})
		for op, run := range map[string]func() error{
			"Set":  func() error { return l.through.Set(t.Context(), "r", 5, "lost", 0) },
			"Seal": func() error { return l.through.Seal(t.Context(), "r", 5) },
			"Del":  func() error { return l.through.Del(t.Context(), "r", 5) },
		} {
			accepted(t, "DEL", l.server.Client(t).Del(t.Context(), l.g.Key("r", "")+"#mark").Err())
			l.proxy.Fail(redistest.LoseReply)
			accepted(t, op, run())
			holds(t, l.g, "r", "other", tok)
		}
		accepted(t, "DEL", l.server.Client(t).Del(t.Context(), l.g.Key("r", "")+"#mark").Err())
		do("acl", "setuser", "default", "-del")(t, l.server.Client(t))
		l.proxy.Fail(redistest.LoseReply)
		plant(t, "Del, refused", l.through.Del(t.Context(), "r", 5))
		holds(t, l.g, "r", "other", tok)
	}
}

// retries is a hook that sends a script once more when no answer came, as retrying hooks do, after it has called between.
type retries struct{ between func() }

func (h *retries) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *retries) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *retries) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		var answer redis.Error
		if err != nil && !errors.As(err, &answer) && strings.HasPrefix(cmd.Name(), "eval") {
			h.between()
			err = next(ctx, cmd)
		}
		return err
	}
}

// The same bytes arrive a second time, and another one's operation has come between.
func TestHookThatRepeatsARequestDoesNotApplyItTwice(t *testing.T) {
	l := startLossy(t, nil)
	accepted(t, "Seal", l.g.Seal(t.Context(), "r", 5))
	l.client.AddHook(&retries{func() { accepted(t, "another", l.g.Set(t.Context(), "r", 5, "b", 0)) }})
	l.proxy.Fail(redistest.LoseReply)
	err := l.through.Run(t.Context(), "r", 5, count, []string{l.g.Key("r", "n")}).Err()
	unknown(t, "Run", err)
	if n := counter(t, l, "r"); n != 1 || err == nil || !strings.Contains(err.Error(), "it was applied") {
		t.Errorf("it ran %d times, and Run = %v; want once, and the words that it was applied", n, err)
	}
}

// The answer to the second sending is not about the first one.
func TestRefusalOfWhatAHookRepeatedIsUnknown(t *testing.T) {
	t.Run("nobody listens", func(t *testing.T) {
		l := startLossy(t, nil)
		var addr atomic.Value
		addr.Store(l.proxy.Addr)
		c := redis.NewClient(&redis.Options{DialerRetries: 1, Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, addr.Load().(string))
		}})
		defer c.Close()
		g := newGuard(t, c, nil)
		c.AddHook(&retries{func() { addr.Store("127.0.0.1:1") }})
		l.proxy.Fail(redistest.LoseReply)
		err := g.Run(t.Context(), "r", 5, count, []string{l.g.Key("r", "n")}).Err()
		unknown(t, "Run", err)
		if n := counter(t, l, "r"); n != 1 || err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("it ran %d times, and Run = %v; the story needs a first run, and a second one that nobody hears", n, err)
		}
	})
	for name, spoil := range map[string]func(*testing.T, *lossy){
		"OOM": func(t *testing.T, l *lossy) { config("maxmemory", "1")(t, l.server.Client(t)) },
		"EVALSHA": func(t *testing.T, l *lossy) {
			do("acl", "setuser", "default", "-evalsha", "-eval")(t, l.server.Client(t))
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := startLossy(t, nil)
			accepted(t, "Seal", l.g.Seal(t.Context(), "r", 5))
			l.client.AddHook(&retries{func() { spoil(t, l) }})
			l.proxy.Fail(redistest.LoseReply)
			unknown(t, "Run", l.through.Run(t.Context(), "r", 5, count, []string{l.g.Key("r", "n")}).Err())
		})
	}
}
