//go:build unix

package redisguard_test

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// beforeScript is a hook that is called before the first, second … script is sent; an error of it is returned instead.
type beforeScript struct {
	n    atomic.Int64
	call func(n int) error
	see  func(cmd redis.Cmder) // if it is set, it is called before, with every command
}

func (h *beforeScript) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *beforeScript) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *beforeScript) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if h.see != nil {
			h.see(cmd)
		}
		if h.call != nil && strings.HasPrefix(cmd.Name(), "eval") {
			if err := h.call(int(h.n.Add(1))); err != nil {
				cmd.SetErr(err)
				return err
			}
		}
		return next(ctx, cmd)
	}
}
