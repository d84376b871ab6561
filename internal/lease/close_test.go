package lease

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestCloseEndsTheContextFirstAndThenRevokes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		l := opened(t, s, nil, 6*time.Second)
		alive := true
		s.revoke = func(int) fate {
			alive = l.Context().Err() == nil
			return fate{}
		}
		if err := l.Close(); err != nil {
			t.Fatalf("Close = %v", err)
		}
		if alive {
			t.Error("the lease was revoked while its context lived")
		}
		if s.leases() != 0 {
			t.Error("the server still has the lease")
		}
		if cause := context.Cause(l.Context()); cause != ErrClosed || l.Err() != ErrClosed || l.Remaining() != 0 {
			t.Errorf("cause = %v, Err() = %v, Remaining() = %v; want ErrClosed, ErrClosed, 0", cause, l.Err(), l.Remaining())
		}
	})
}

func TestCloseWaitsForWhatRunsBesideTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := opened(t, newServer(), nil, 6*time.Second)
		ended := false
		started := l.Go(func(ctx context.Context) {
			<-ctx.Done()
			time.Sleep(time.Second)
			ended = true
		})
		l.Close()
		if !started || !ended {
			t.Errorf("started = %v, ended before Close returned = %v; want both", started, ended)
		}
		if l.Go(func(context.Context) { t.Error("started after Close") }) {
			t.Error("Go on a closed lease says that it started")
		}
	})
}

func TestCloseIsTheSameForAllWhoCallIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.revoke = func(int) fate { return fate{err: status.Error(codes.PermissionDenied, "no")} }
		l := opened(t, s, nil, 6*time.Second)
		var errs [8]error
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() { errs[i] = l.Close() })
		}
		wg.Wait()
		for _, err := range append(errs[:], l.Close()) {
			if err == nil || err != errs[0] {
				t.Errorf("Close = %v, another call returned %v", err, errs[0])
			}
		}
		if n := s.count("revoke"); n != 1 {
			t.Errorf("%d revokes were sent, want 1", n)
		}
	})
}

func TestCloseTriesUntilTheServerHasAnswered(t *testing.T) {
	for name, bad := range map[string]fate{
		"refused": {refused: unavailable}, "request lost": {dropped: true}, "reply lost": {lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				s.revoke = func(n int) fate {
					if n < 3 {
						return bad
					}
					return fate{}
				}
				l := opened(t, s, nil, 15*time.Second)
				if err := l.Close(); err != nil || s.leases() != 0 {
					t.Errorf("Close = %v, the server has %d leases", err, s.leases())
				}
			})
		})
	}
}

// https://github.com/etcd-io/etcd/issues/6681
func TestCloseIsBoundedByTheLeaseAndSaysThatItWasAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 15 * time.Second
		s := newServer()
		s.revoke = func(int) fate { return fate{dropped: true} }
		l := opened(t, s, nil, ttl)
		began := time.Now()
		err := l.Close()
		if err == nil || !strings.Contains(err.Error(), "abandoned") || !strings.Contains(err.Error(), "in about 0s") {
			t.Errorf("Close = %v, want an error that says that the lease was abandoned, and that it has had its time", err)
		}
		if took := time.Since(began); took > ttl+ttl/2 {
			t.Errorf("Close took %v, the lease is %v long", took, ttl)
		}
	})
}

func TestCloseOfALapsedLeaseMakesOneAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.renew = func(int) fate { return fate{dropped: true} }
		s.revoke = s.renew
		l := opened(t, s, nil, 6*time.Second)
		time.Sleep(time.Minute)
		if err := l.Close(); err == nil || !errors.Is(l.Err(), ErrExpired) {
			t.Errorf("Close = %v, Err() = %v; want an error and ErrExpired as before", err, l.Err())
		}
		if n := s.count("revoke"); n != 1 {
			t.Errorf("%d revokes were sent, want 1", n)
		}
	})
}

// https://github.com/tristanls/dynamodb-lock-client/issues/1, https://github.com/swarthy/redis-semaphore/pull/206
func TestNothingIsSentAfterCloseWhateverWasUnderWay(t *testing.T) {
	for delay := time.Duration(0); delay < 900*time.Millisecond; delay += 50 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			s := newServer()
			s.renew = func(int) fate { return fate{request: 300 * time.Millisecond, reply: 300 * time.Millisecond} }
			l := opened(t, s, nil, 6*time.Second)
			time.Sleep(2*time.Second - 100*time.Millisecond + delay) // the renewal is sent after 2 s
			if err := l.Close(); err != nil {
				t.Errorf("Close = %v", err)
			}
			renewals := s.count("renew")
			time.Sleep(time.Minute)
			if n := s.count("renew"); n != renewals {
				t.Errorf("%d renewals were sent after Close", n-renewals)
			}
			if l.Err() != ErrClosed || s.leases() != 0 {
				t.Errorf("Err() = %v, the server has %d leases; want ErrClosed and none", l.Err(), s.leases())
			}
		})
	}
}

// https://github.com/etcd-io/etcd/pull/7007, https://github.com/etcd-io/etcd/issues/9935
func TestClosedClientEndsTheLeaseAndCloseSaysWhenItLapses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		l := opened(t, s, nil, 15*time.Second)
		time.Sleep(time.Second)
		l.Client().Close()
		synctest.Wait()
		if err := l.Err(); !errors.Is(err, ErrExpired) || !strings.Contains(err.Error(), "client was closed") {
			t.Errorf("Err() = %v, want ErrExpired because the client was closed", err)
		}
		began := time.Now()
		err := l.Close()
		if err == nil || !strings.Contains(err.Error(), "abandoned") || !strings.Contains(err.Error(), "in about 14s") {
			t.Errorf("Close = %v, want an error that says that the lease was abandoned and lapses in 14 s", err)
		}
		if time.Since(began) != 0 {
			t.Errorf("Close of a closed client's lease took %v", time.Since(began))
		}
	})
}
