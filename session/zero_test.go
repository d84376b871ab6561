package session_test

import (
	"errors"
	"testing"

	"github.com/fencedlock/fencedlock/session"
)

func TestASessionThatNewDidNotMakeIsOverAndPanicsNowhere(t *testing.T) {
	for name, s := range map[string]*session.Session{"zero": {}, "nil": nil} {
		t.Run(name, func(t *testing.T) {
			if err := s.Err(); !errors.Is(err, session.ErrClosed) {
				t.Errorf("Err = %v, want ErrClosed", err)
			}
			if err := s.Close(); !errors.Is(err, session.ErrClosed) {
				t.Errorf("Close = %v, want ErrClosed", err)
			}
			if s.Context().Err() == nil {
				t.Error("Context has not ended")
			}
			if s.Remaining() != 0 || s.TTL() != 0 || s.Lease() != 0 || s.Client() != nil {
				t.Errorf("Remaining %v, TTL %v, Lease %v, Client %v; want zero values", s.Remaining(), s.TTL(), s.Lease(), s.Client())
			}
		})
	}
}
