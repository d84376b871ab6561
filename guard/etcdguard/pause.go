package etcdguard

import (
	"context"
	"math/rand/v2"
	"time"
)

const longestPause = 250 * time.Millisecond

// pause waits before the next of several tries, the first of which is 0: a random time of up to 2 ms, 4 ms and so on, so
// that those who met do not meet again. It returns early with ctx's error.
func pause(ctx context.Context, try int) error {
	d := min(2*time.Millisecond<<min(try, 10), longestPause)
	t := time.NewTimer(rand.N(d) + 1)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
