package clock

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSinceBootAdvancesWithTimeAndNeverGoesBack(t *testing.T) {
	began, last := SinceBoot(), SinceBoot()
	wall := time.Now()
	for time.Since(wall) < 50*time.Millisecond {
		now := SinceBoot()
		if now < last {
			t.Fatalf("the clock went back from %v to %v", last, now)
		}
		last = now
	}
	if got := last - began; got < 30*time.Millisecond || got > 5*time.Second {
		t.Errorf("50 ms passed, the clock counted %v", got)
	}
}

func TestFromPrefersTheContextsClock(t *testing.T) {
	fixed := Clock(func() time.Duration { return time.Hour })
	if got := From(With(t.Context(), fixed))(); got != time.Hour {
		t.Errorf("From(With(ctx, c))() = %v, want 1h", got)
	}
	if From(t.Context()) == nil {
		t.Error("From a plain context is nil, want this machine's clock")
	}
}
