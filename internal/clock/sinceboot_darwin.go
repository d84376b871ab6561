package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// SinceBoot reads CLOCK_MONOTONIC, which on Darwin goes on while the machine
// sleeps, unlike the clock behind time.Now.
func SinceBoot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return sinceStart()
	}
	return time.Duration(ts.Nano())
}
