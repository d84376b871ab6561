package lease

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestMarginGrowsWithTheLeaseUpToASecondAndOnePerCent(t *testing.T) {
	for _, c := range []struct{ ttl, want time.Duration }{
		{2 * time.Second, 220 * time.Millisecond},
		{10 * time.Second, 1100 * time.Millisecond},
		{15 * time.Second, 1150 * time.Millisecond},
		{time.Minute, 1600 * time.Millisecond},
		{time.Hour, 37 * time.Second},
	} {
		if got := margin(c.ttl); got != c.want {
			t.Errorf("margin(%v) = %v, want %v", c.ttl, got, c.want)
		}
	}
}

// A reply that was slow must not lengthen the lease: the server counted from an earlier moment.
//
// https://github.com/etcd-io/etcd/pull/5603, https://github.com/tikv/pd/pull/1676
func TestDeadlineCountsFromTheSendingOfTheRenewalNotFromItsReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 6 * time.Second
		s := newServer()
		silent := false
		s.renew = func(int) fate { return fate{reply: 900 * time.Millisecond, lost: silent} }
		l := opened(t, s, nil, ttl)
		if got, want := l.Remaining(), ttl-margin(ttl); got != want {
			t.Errorf("after a grant that took no time %v are left, want %v", got, want)
		}
		time.Sleep(3 * time.Second) // the renewal sent at 2 s has been answered at 2.9 s
		if got, want := l.Remaining(), ttl-margin(ttl)-time.Second; got != want {
			t.Errorf("1 s after a renewal was sent %v are left, want %v", got, want)
		}
		silent = true
		acknowledged := s.times("renew")[0]
		<-l.Context().Done()
		if got, want := time.Since(acknowledged), ttl-margin(ttl); got != want {
			t.Errorf("the context ended %v after the last acknowledged renewal was sent, want %v", got, want)
		}
		if s.left(l.ID()) == 0 {
			t.Error("the server has given the lease up before its holder knew")
		}
	})
}

func TestSlowGrantDoesNotLengthenTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 6 * time.Second
		s := newServer()
		s.grant = func(int) fate { return fate{reply: 800 * time.Millisecond} }
		s.renew = func(int) fate { return fate{dropped: true} }
		began := time.Now()
		l := opened(t, s, nil, ttl)
		<-l.Context().Done()
		if got, want := time.Since(began), ttl-margin(ttl); got != want {
			t.Errorf("the context ended %v after the grant was asked for, want %v", got, want)
		}
	})
}

// The reply arrives in time for the server, but the process was not there to see it: it must not be taken for good.
//
// https://github.com/swarthy/redis-semaphore/issues/175
func TestReplyHandledAfterTheOldDeadlineEndsTheLeaseForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 6 * time.Second
		s, c := newServer(), newPausable()
		s.renew = func(int) fate { return fate{reply: 100 * time.Millisecond} }
		l := opened(t, s, c, ttl)
		time.Sleep(2*time.Second + 90*time.Millisecond) // the renewal is 10 ms from being answered
		c.jump(ttl)
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		if l.Context().Err() == nil {
			t.Fatal("the lease revived by a reply that was handled after its deadline")
		}
		if s.left(l.ID()) == 0 {
			t.Fatal("the server was to have the lease still")
		}
		over := l.Err()
		time.Sleep(time.Minute)
		if l.Err() != over || !errors.Is(over, ErrExpired) || l.Remaining() != 0 {
			t.Errorf("Err() = %v, Remaining() = %v; want the same ErrExpired as before and 0", l.Err(), l.Remaining())
		}
	})
}

// Timers and time.Now stand still while a machine sleeps; leases do not.
//
// https://github.com/leapmux/leapmux/pull/403, https://github.com/taskcluster/taskcluster/issues/5269
func TestAfterTheMachineSleptErrKnowsAtOnceAndTheContextSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newServer(), newPausable()
		l := opened(t, s, c, 15*time.Second)
		other := opened(t, s, c, 15*time.Second) // nobody asks this one for Err
		time.Sleep(time.Second)
		c.jump(10 * time.Minute)
		woken := time.Now()
		if err := l.Err(); !errors.Is(err, ErrExpired) {
			t.Errorf("Err() right after the sleep = %v, want ErrExpired", err)
		}
		if l.Remaining() != 0 {
			t.Errorf("Remaining() right after the sleep = %v, want 0", l.Remaining())
		}
		if l.Context().Err() == nil {
			t.Error("Err() knows, and the context still lives")
		}
		<-other.Context().Done()
		if late := time.Since(woken); late > 500*time.Millisecond {
			t.Errorf("the context ended %v after the sleep, want half a second at most", late)
		}
		if cause := context.Cause(other.Context()); !errors.Is(cause, ErrExpired) {
			t.Errorf("cause = %v, want ErrExpired", cause)
		}
	})
}

func TestErrorAtTheDeadlineSaysWhyRenewalsFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.renew = func(int) fate { return fate{refused: unavailable} }
		l := opened(t, s, nil, 3*time.Second)
		<-l.Context().Done()
		if err := l.Err(); !errors.Is(err, ErrExpired) || !errors.Is(err, unavailable) || !strings.Contains(err.Error(), "TTL 3s") {
			t.Errorf("Err() = %v; want ErrExpired, the last failure and the TTL", err)
		}
	})
}
