//go:build unix

package redisguard_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/fencedlock/internal/redistest"
)

// A request that was given up can still arrive: the network or a server that stood still had it.
// https://github.com/redis/hiredis/issues/749, https://github.com/redisson/redisson/issues/1129
func TestLateRequestNeverLandsAfterALaterOperation(t *testing.T) {
	t.Parallel()
	cut := errors.New("cut")
	for name, later := range map[string]func(t *testing.T, l *lossy){
		"Set":  func(t *testing.T, l *lossy) { accepted(t, "Set", l.through.Set(t.Context(), "r", 5, "b", 0)) },
		"Seal": func(t *testing.T, l *lossy) { accepted(t, "Seal", l.through.Seal(t.Context(), "r", 5)) },
		"Run": func(t *testing.T, l *lossy) {
			accepted(t, "Run", l.through.Run(t.Context(), "r", 5, count, []string{l.g.Key("r", "m")}).Err())
		},
		"Del, higher token": func(t *testing.T, l *lossy) { accepted(t, "Del", l.through.Del(t.Context(), "r", 6)) },
	} {
		t.Run(name, func(t *testing.T) {
			l := startLossy(t, nil)
			key := []string{l.g.Key("r", "n")}
			accepted(t, "Seal", l.g.Seal(t.Context(), "r", 5))
			l.client.AddHook(&beforeScript{call: func(n int) error {
				if n > 1 && n <= 4 {
					return cut
				}
				return nil
			}})
			hit := l.proxy.Fail(redistest.DelayRequest)
			err := l.through.Run(t.Context(), "r", 5, count, key).Err()
			unknown(t, "Run without an answer", err)
			if !errors.Is(err, cut) || !strings.Contains(err.Error(), "may still arrive") {
				t.Errorf("Run = %v; want all that is known", err)
			}
			<-hit
			later(t, l)
			arrive(t, l)
			if n := counter(t, l, "r"); n != 0 {
				t.Errorf("the late request was applied after the later %s", name)
			}
		})
	}
	t.Run("control", func(t *testing.T) {
		l := startLossy(t, nil)
		c := redis.NewClient(&redis.Options{Addr: l.proxy.Addr, MaxRetries: -1})
		defer c.Close()
		hit := l.proxy.Fail(redistest.DelayRequest)
		put := redis.NewScript(`return redis.call('SET', KEYS[1], ARGV[1])`)
		if err := put.Eval(t.Context(), c, []string{"x"}, "first").Err(); err == nil {
			t.Error("an answer came")
		}
		<-hit
		accepted(t, "SET", put.Eval(t.Context(), c, []string{"x"}, "second").Err())
		arrive(t, l)
		if got := c.Get(t.Context(), "x").Val(); got != "first" {
			t.Errorf("without the guard it is %q; the story needs the late one to win", got)
		}
	})
}

// arrive lets the delayed request go, and returns when the server has carried it out.
func arrive(t *testing.T, l *lossy) {
	t.Helper()
	c := l.server.Client(t)
	scripts := func() string {
		var lines []string
		for line := range strings.Lines(c.Info(t.Context(), "commandstats").Val()) {
			if strings.HasPrefix(line, "cmdstat_eval") {
				calls, _, _ := strings.Cut(line, ",")
				lines = append(lines, calls)
			}
		}
		return strings.Join(lines, " ")
	}
	before := scripts()
	l.proxy.Release()
	redistest.Eventually(t, "the late request has arrived", func() bool { return scripts() != before })
}

// One attempt is delayed, the next one is applied, and then the delayed one arrives, when the mark's newest entry is another's.
func TestLateDuplicateOfAnAppliedOperationIsNotAppliedAgain(t *testing.T) {
	l := startLossy(t, nil)
	key := []string{l.g.Key("r", "n")}
	hit := l.proxy.Fail(redistest.DelayRequest)
	if n, err := l.through.Run(t.Context(), "r", 5, count, key).Int(); n != 1 || err != nil {
		t.Errorf("Run = %d, %v", n, err)
	}
	<-hit
	accepted(t, "another operation", l.g.Set(t.Context(), "r", 5, "a", 0))
	arrive(t, l)
	if n := counter(t, l, "r"); n != 1 {
		t.Errorf("the counter is %d; the late duplicate was applied", n)
	}
	holds(t, l.g, "r", "a", 5)
}

// Its own repetition found that it had not been applied, and applied it. Another operation came between and hid nothing.
func TestLateRequestIsNotAppliedAfterItsRepetitionWas(t *testing.T) {
	l := startLossy(t, nil)
	accepted(t, "Seal", l.g.Seal(t.Context(), "r", 5))
	l.client.AddHook(&beforeScript{call: func(n int) error {
		if n == 2 {
			accepted(t, "another operation", l.g.Set(t.Context(), "r", 5, "a", 0))
		}
		return nil
	}})
	hit := l.proxy.Fail(redistest.DelayRequest)
	if n, err := l.through.Run(t.Context(), "r", 5, count, []string{l.g.Key("r", "n")}).Int(); n != 1 || err != nil {
		t.Errorf("Run = %d, %v; want 1", n, err)
	}
	<-hit
	arrive(t, l)
	if n := counter(t, l, "r"); n != 1 {
		t.Errorf("the counter is %d; the late request was applied", n)
	}
	holds(t, l.g, "r", "a", 5)
}

// A later operation shuts out an earlier one whatever their tokens are, and whether a third one that never arrived had a
// higher one. Numbers are compared exactly, where doubles merge them and where they get longer.
func TestLateRequestNeverLandsWhateverWasLostSince(t *testing.T) {
	for _, first := range []int64{1, 9, 99, 1 << 53} {
		t.Run(fmt.Sprint(first), func(t *testing.T) {
			l := startLossy(t, nil)
			l.through.SetNumber(first - 1)
			accepted(t, "Seal", l.g.Seal(t.Context(), "r", 5))
			cut := errors.New("cut")
			l.client.AddHook(&beforeScript{call: func(n int) error {
				if n > 1 && n <= 4 {
					return cut
				}
				return nil
			}})
			hit := l.proxy.Fail(redistest.DelayRequest)
			unknown(t, "Run with 5", l.through.Run(t.Context(), "r", 5, count, []string{l.g.Key("r", "n")}).Err())
			<-hit
			if first == 1 {
				h := &loses{on: true}
				l.client.AddHook(h)
				unknown(t, "Set with 6, which never arrives", l.through.Set(t.Context(), "r", 6, "six", 0))
				h.on = false
			}
			accepted(t, "Seal with 5", l.through.Seal(t.Context(), "r", 5))
			arrive(t, l)
			if n := counter(t, l, "r"); n != 0 {
				t.Errorf("the late request with 5 was applied after a Seal with 5")
			}
		})
	}
}
