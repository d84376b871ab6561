package redisguard

import (
	"context"
	"encoding"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/fencedlock/guard"
)

// Run runs your own script under the check: it runs if tok is not refused, in the same atomic step, after the mark
// was raised. The script sees its own KEYS and ARGV, as with [redis.Script.Run], and the result is read from the command
// in the same way.
//
//	var take = redis.NewScript(`
//		local left = tonumber(redis.call('GET', KEYS[1]) or '0') - tonumber(ARGV[1])
//		if left < 0 then return redis.error_reply('EMPTY not enough') end
//		redis.call('SET', KEYS[1], left)
//		return left`)
//
//	left, err := g.Run(ctx, resource, tok, take, []string{g.Key(resource, "stock")}, 3).Int()
//
// Every key is one of [Guard.Key], or another of the same slot; others are refused before anything is sent. A script
// that touches keys it was not given breaks the rules of Redis, and the guard's own key is not to be touched at all. The
// script begins without a line #!. It cannot be ended by SCRIPT KILL, since the mark has been written before it starts,
// so it must be short, as every script that has written.
//
// The command's error is one of those of [Guard.Set], and:
//   - one that wraps [guard.ErrUnknown], when the script broke off with an error: what it had written before stays, as
//     Redis has no rollback;
//   - the script's own, when it returned one (redis.error_reply, or what redis.pcall gave it). The script came to its end,
//     and it knows what it has written. It is a [redis.Error], so redis.HasErrorPrefix tells which;
//   - redis.Nil, when the script returned nil or false.
//
// The reply is kept with the mark until the next operation, so that a repeated request is answered with it; keep replies
// short. Where another Guard's operation came between, the error wraps [guard.ErrUnknown] and says that it was
// applied. Tables are kept 16 deep, and errors inside of tables arrive as texts.
func (g *Guard) Run(ctx context.Context, resource string, tok guard.Token, script *redis.Script, keys []string, args ...any) *redis.Cmd {
	cmd, reply, err := g.run(ctx, resource, tok, script, keys, args)
	g.report(ctx, resource, tok, err)
	switch {
	case err != nil:
		cmd.SetErr(err)
	case reply == nil:
		cmd.SetErr(redis.Nil)
	default:
		cmd.SetVal(reply)
	}
	return cmd
}

func (g *Guard) run(ctx context.Context, resource string, tok guard.Token, script *redis.Script, keys []string, args []any) (*redis.Cmd, any, error) {
	none := redis.NewCmd(ctx, "eval")
	if err := g.check(resource, tok); err != nil {
		return none, nil, err
	}
	if script == nil {
		return none, nil, errors.New("redisguard: Run: the script is nil")
	}
	if err := g.checkKeys(resource, keys); err != nil {
		return none, nil, err
	}
	// A pipeline that is never executed shows what would be sent: the source, and the arguments as go-redis unfolds them.
	cmd := script.Eval(ctx, g.client.Pipeline(), keys, args...)
	all := cmd.Args()
	source, _ := all[1].(string)
	own := all[3+len(keys):]
	for i, arg := range own {
		var err error
		if own[i], err = sendable(arg); err != nil {
			return cmd, nil, fmt.Errorf("redisguard: Run on %q: argument %d: %w", resource, i+1, err)
		}
	}
	program, err := g.programs.of(source)
	if err != nil {
		return cmd, nil, err
	}
	reply, err := g.do(ctx, &operation{name: "Run", resource: resource, tok: tok, program: program,
		keys: append(slices.Clip(keys), g.mark(resource)), args: own})
	return cmd, reply, err
}

// sendable returns an argument that go-redis can write, or an error before it is halfway through a request.
func sendable(arg any) (any, error) {
	switch v := arg.(type) {
	case nil, string, []byte, bool, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, uintptr, float32, float64,
		*string, *bool, *int, *int8, *int16, *int32, *int64, *uint, *uint8, *uint16, *uint32, *uint64, *uintptr, *float32, *float64,
		time.Time, *time.Time, time.Duration, *time.Duration, net.IP:
		return arg, nil
	case encoding.BinaryMarshaler:
		return v.MarshalBinary()
	}
	return nil, fmt.Errorf("go-redis cannot write a %T; give it a text, bytes, a number or an encoding.BinaryMarshaler", arg)
}
