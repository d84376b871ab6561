package clock

import (
	"time"

	"golang.org/x/sys/windows"
)

// SinceBoot reads GetTickCount64, which counts sleep in steps of up to 16 ms;
// the margin of a lease's deadline is larger than that.
func SinceBoot() time.Duration { return windows.DurationSinceBoot() }
