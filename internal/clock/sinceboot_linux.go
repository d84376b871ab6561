package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// SinceBoot reads CLOCK_BOOTTIME, which goes on while the machine sleeps:
// https://man7.org/linux/man-pages/man2/clock_gettime.2.html
func SinceBoot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return sinceStart() // kernels before 2.6.39
	}
	return time.Duration(ts.Nano())
}
