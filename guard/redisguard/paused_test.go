//go:build unix

package redisguard_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/redisguard"
	"github.com/fencedlock/fencedlock/internal/child"
	"github.com/fencedlock/fencedlock/internal/redistest"
)

// holder is a process that has passed its last look at the lock and is about to write. Its arguments are the server's
// address, and whether it guards its write.
func holder(s *child.Self) error {
	ctx := context.Background()
	c := redis.NewClient(&redis.Options{Addr: s.Args[0]})
	defer c.Close()
	g, err := redisguard.New(ctx, c, nil)
	if err != nil {
		return err
	}
	s.Say("looked")
	s.Command()
	if s.Args[1] == "guarded" {
		err = g.Set(ctx, "doc", 5, "of the first holder", 0)
	} else {
		err = c.Set(ctx, g.Key("doc", ""), "of the first holder", 0).Err()
	}
	s.Say("stale %v", errors.Is(err, guard.ErrStale))
	return nil
}

// A holder passes its last look at the lock, is paused, and writes when it wakes up:
// https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html, https://github.com/etcd-io/etcd/issues/10811
func TestPausedHolderCannotOverwriteItsSuccessor(t *testing.T) {
	for _, c := range []struct{ how, stale, value string }{
		{"guarded", "true", "of the second holder"},
		{"plain", "false", "of the first holder"}, // what it is for: without the guard the story corrupts
	} {
		t.Run(c.how, func(t *testing.T) {
			s := redistest.Start(t)
			g := newGuard(t, s.Client(t), nil)
			p := child.Start(t, "holder", s.Addr(), c.how)
			p.Expect("looked", 30*time.Second)
			p.Stop()
			p.Send("go on") // waits in its standard input
			accepted(t, "the second holder", g.Set(t.Context(), "doc", 7, "of the second holder", 0))
			p.Continue()
			if got := p.Expect("stale", 30*time.Second); got != c.stale {
				t.Errorf("the late write was refused: %s; want %s", got, c.stale)
			}
			holds(t, g, "doc", c.value, 7)
		})
	}
}
