//go:build unix

package worker

import (
	"sync/atomic"
	"time"

	"github.com/fencedlock/fencedlock/internal/clock"
)

// steppedClock is the machine's clock with an error that can be changed, as if somebody had set it.
type steppedClock struct{ by atomic.Int64 }

func (c *steppedClock) now() time.Duration { return clock.SinceBoot() + time.Duration(c.by.Load()) }

func (c *steppedClock) step(by time.Duration) { c.by.Add(int64(by)) }
