//go:build unix

package worker

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/internal/clock"
	"github.com/fencedlock/fencedlock/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The fault of the clock would prove nothing if sessions did not see it.
//
// https://github.com/etcd-io/etcd/issues/12291
func TestASessionSeesTheStepOfItsClock(t *testing.T) {
	client := etcdtest.Start(t, nil).Client(t)
	var c steppedClock
	open := func() *session.Session {
		s, err := session.New(clock.With(t.Context(), c.now), client, &session.Options{TTL: 2 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	s := open()
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	c.step(time.Hour)
	if err := s.Err(); !errors.Is(err, session.ErrExpired) {
		t.Errorf("an hour later: Err() = %v, want ErrExpired", err)
	}
	s = open()
	c.step(-time.Hour)
	if left := s.Remaining(); left < 59*time.Minute {
		t.Errorf("with a clock that was set back by an hour %v remain", left)
	}
}
