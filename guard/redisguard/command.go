package redisguard

import (
	"context"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// command is sent at most once by go-redis, which else sends again in secret after most errors, and its error is then
// that of the last time. It also knows whether go-redis has begun to write it: what was never written was not applied.
type command struct {
	*redis.Cmd
	sent atomic.Bool
}

// newCommand makes an EVAL or EVALSHA.
func newCommand(ctx context.Context, name, script string, keys []string, args []any) *command {
	all := make([]any, 0, 3+len(keys)+len(args))
	all = append(all, name, script, len(keys))
	for _, k := range keys {
		all = append(all, k)
	}
	c := &command{Cmd: redis.NewCmd(ctx, append(all, args...)...)}
	c.SetFirstKeyPos(3) // for the slot
	return c
}

// NoRetry is go-redis's question whether the command must not be sent again.
func (c *command) NoRetry() bool { return true }

// Args is what go-redis asks for when it writes a command. Others may ask, too, and then the command counts as sent, which
// errs on the safe side. [New] tries out that it is asked.
func (c *command) Args() []any {
	c.sent.Store(true)
	return c.Cmd.Args()
}

// Clone counts as sending, since the copy is out of sight.
func (c *command) Clone() redis.Cmder {
	c.sent.Store(true)
	return c.Cmd.Clone()
}
