package redisguard

import (
	"context"
	"errors"
	"net"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// command is sent at most once by go-redis itself, which else sends again in secret after most errors, and its error is
// then that of the last time. It knows how often it was written all the same, by redirections of a cluster and by hooks.
type command struct {
	*redis.Cmd
	number *watched
}

// newCommand makes an EVAL or EVALSHA. number is one of args.
func newCommand(ctx context.Context, name, script string, keys []string, args []any, number *watched) *command {
	all := make([]any, 0, 3+len(keys)+len(args))
	all = append(all, name, script, len(keys))
	for _, k := range keys {
		all = append(all, k)
	}
	c := &command{redis.NewCmd(ctx, append(all, args...)...), number}
	c.SetFirstKeyPos(3) // for the slot
	return c
}

// NoRetry is go-redis's question whether the command must not be sent again.
func (c *command) NoRetry() bool { return true }

// SetErr is called with the error of each sending, also of one that a redirection follows. A refusal settles that one
// sending; not two, of which a hook has not told the first one's end.
func (c *command) SetErr(err error) {
	if isRefusal(err) {
		c.number.written.CompareAndSwap(1, 0)
	}
	c.Cmd.SetErr(err)
}

// applied tells whether the command may have been applied, after it has ended with an error: not if nobody listened, if its
// writing ended before the number's turn, or if whatever was sent was refused.
func (c *command) applied() bool { return c.number.written.Load() > 0 }

// isCut tells whether the writing of a request failed.
func isCut(err error) bool {
	var broken *net.OpError
	return errors.As(err, &broken) && broken.Op == "write"
}

// watched is an argument that counts how often go-redis writes it, and thereby its command: it comes after all that the user
// gives, and Redis does not carry out a part. Who else asks for its bytes
// makes the command count as sent, which errs on the safe side. [New] tries out that go-redis asks.
type watched struct {
	text    string
	written atomic.Int32
}

// MarshalBinary is how go-redis asks for the bytes.
func (w *watched) MarshalBinary() ([]byte, error) {
	w.written.Add(1)
	return []byte(w.text), nil
}

// String is for hooks that log commands.
func (w *watched) String() string { return w.text }
