//go:build !linux && !darwin && !windows

package clock

import "time"

// SinceBoot reads Go's monotonic clock. Whether it counts sleep depends on the
// system: where it does not, only a guard protects what a machine does in the
// moment after it woke up.
func SinceBoot() time.Duration { return sinceStart() }
