//go:build unix

package redisguard_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/internal/redistest"
)

// Operations of one Guard on one resource run one at a time. The wait ends with the context, and nothing remains of it.
func TestOperationsOfOneGuardTakeTurns(t *testing.T) {
	c := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr()})
	defer c.Close()
	g := newGuard(t, c, nil)
	begun, goOn := make(chan struct{}), make(chan struct{})
	c.AddHook(&beforeScript{call: func(n int) error {
		if n == 1 {
			close(begun)
			<-goOn
		}
		return nil
	}})
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- g.Set(t.Context(), "r", 5, "first", 0) }()
	<-begun
	over := errors.New("over")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancelled := make(chan error, 1)
	go func() { cancelled <- g.Set(ctx, "r", 5, "third", 0) }()
	cancel(over)
	err := <-cancelled
	plant(t, "a Set that waits", err)
	if !errors.Is(err, over) || !errors.Is(err, context.Canceled) {
		t.Errorf("a Set that waits: %v; want the context's error, and its cause", err)
	}
	accepted(t, "another resource", g.Set(t.Context(), "s", 5, "other", 0))
	go func() { second <- g.Set(t.Context(), "r", 5, "second", 0) }()
	close(goOn)
	accepted(t, "first", <-first)
	accepted(t, "second", <-second)
	if n := g.Turns(); n != 0 {
		t.Errorf("%d resources are remembered; want none", n)
	}
}

// loses is a hook that loses every script while on is set, after go-redis has written it, as far as the guard can tell.
type loses struct {
	beforeScript
	on     bool
	cancel context.CancelFunc // called each time, so that nothing is sent again; may be nil
}

func (h *loses) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !h.on || cmd.Name() != "evalsha" {
			return next(ctx, cmd)
		}
		for _, a := range cmd.Args() {
			if w, ok := a.(interface{ MarshalBinary() ([]byte, error) }); ok {
				_, _ = w.MarshalBinary()
			}
		}
		if h.cancel != nil {
			h.cancel()
		}
		return errors.New("lost")
	}
}

// Whatever is lost, and whoever writes, the mark and what the Guard remembers stay as large as they are.
func TestLostRepliesLeaveNothingBehind(t *testing.T) {
	s := redistest.Start(t)
	c := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer c.Close()
	h := &loses{}
	c.AddHook(h)
	g := newGuard(t, c, nil)
	size := func() int64 { return s.Client(t).StrLen(t.Context(), g.Key("r", "")+"#mark").Val() }
	for i := range 20 {
		accepted(t, "another Guard", newGuard(t, c, nil).Seal(t.Context(), "r", guard.Token(5+i)))
	}
	accepted(t, "Set", g.Set(t.Context(), "r", 99, "a", 0))
	before := size()
	h.on = true
	for i := range 200 {
		for _, r := range []string{"r", fmt.Sprint(i)} {
			ctx, cancel := context.WithCancel(t.Context())
			h.cancel = cancel
			unknown(t, "Set", g.Set(ctx, r, 99, "lost", 0))
		}
	}
	h.on = false
	accepted(t, "Set", g.Set(t.Context(), "r", 99, "a", 0))
	if after := size(); after != before || after > 300 {
		t.Errorf("the mark has %d bytes, and had %d; want as many, and less than 300", after, before)
	}
	if n := g.Turns(); n != 0 {
		t.Errorf("%d resources are remembered; want none", n)
	}
}
