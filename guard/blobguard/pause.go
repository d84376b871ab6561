package blobguard

import (
	"context"
	"math/rand/v2"
	"time"
)

// longestPause bounds the pause between two tries.
const longestPause = 100 * time.Millisecond

// pause waits before a further try, the first of which is 0: a random time of up to 2 ms, 4 ms and so on up to 100 ms, so
// that those who met do not meet again. It returns early with ctx's error.
func pause(ctx context.Context, try int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t := time.NewTimer(rand.N(min(2*time.Millisecond<<min(try, 10), longestPause)) + 1)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
