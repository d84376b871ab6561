package clock

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSinceBootAdvancesWithTimeAndNeverGoesBack(t *testing.T) {
	const slack = 5 * time.Millisecond // for rounding
	outer := time.Now()
	began := SinceBoot()
	inner, last := time.Now(), began
	for time.Since(inner) < 50*time.Millisecond {
		now := SinceBoot()
		if now < last {
			t.Fatalf("the clock went back from %v to %v", last, now)
		}
		last = now
	}
	got := SinceBoot() - began
	if most := time.Since(outer) + slack; got < 50*time.Millisecond-slack || got > most {
		t.Errorf("between 50 ms and %v passed, the clock counted %v", most, got)
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
