//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/fencedlock/fencedlock/internal/daemon"
)

func TestAMissingServerFailsTheRun(t *testing.T) {
	t.Setenv("FENCEDLOCK_REQUIRE_SERVERS", "0") // tests would be skipped
	s := newStage(t.Context(), t.Output())
	reached, cleaned := false, false
	err := s.do(func() {
		s.Cleanup(func() { cleaned = true })
		daemon.Unavailable(s, daemon.NotInstalledError("no such server"))
		reached = true
	})
	if err == nil || !strings.Contains(err.Error(), "no such server") {
		t.Errorf("the run's error is %v", err)
	}
	if reached || !cleaned || s.Context().Err() == nil {
		t.Errorf("went on: %t, cleaned up: %t, its context: %v", reached, cleaned, s.Context().Err())
	}
}
