package lease

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestRenewalsAreSentEveryThirdOfTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		began := time.Now()
		opened(t, s, nil, 15*time.Second)
		time.Sleep(21 * time.Second)
		for i, at := range s.times("renew") {
			if got, want := at.Sub(began), time.Duration(i+1)*5*time.Second; got != want {
				t.Errorf("renewal %d was sent after %v, want %v", i, got, want)
			}
		}
		if n, streams := s.count("renew"), s.count("open"); n != 4 || streams != 1 {
			t.Errorf("%d renewals on %d streams in 21 s, want 4 on 1", n, streams)
		}
	})
}

// https://github.com/cirello-io/dynamolock/issues/280, https://github.com/hashicorp/consul/pull/912
func TestFailedRenewalsAreTriedAgainUntilTheDeadline(t *testing.T) {
	for _, c := range []struct {
		name string
		bad  fate
	}{
		{"refused", fate{refused: unavailable}},
		{"request lost", fate{dropped: true}},
		{"reply lost", fate{lost: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const ttl = 10 * time.Second
				s := newServer()
				began := time.Now()
				// Nothing gets through from the first renewal until 2 s before the deadline.
				s.renew = func(int) fate {
					if time.Since(began) < 7*time.Second {
						return c.bad
					}
					return fate{}
				}
				l := opened(t, s, nil, ttl)
				time.Sleep(time.Minute)
				if err := l.Err(); err != nil {
					t.Errorf("a blip of 4 s ended a lease of 10 s: %v", err)
				}
			})
		})
	}
}

// https://github.com/etcd-io/etcd/issues/6922, https://github.com/etcd-io/etcd/pull/7010,
// https://github.com/etcd-io/etcd/issues/8618
func TestRenewalRecoversFromEveryErrorOfItsStream(t *testing.T) {
	errs := map[string]error{
		"end of stream":       io.EOF,
		"no leader":           rpctypes.ErrGRPCNoLeader,
		"not the leader":      rpctypes.ErrGRPCNotLeader,
		"leader changed":      rpctypes.ErrGRPCLeaderChanged,
		"timeout":             rpctypes.ErrGRPCTimeout,
		"stopped":             rpctypes.ErrGRPCStopped,
		"too many requests":   rpctypes.ErrGRPCRequestTooManyRequests,
		"no space":            rpctypes.ErrGRPCNoSpace,
		"invalid token":       rpctypes.ErrGRPCInvalidAuthToken,
		"old auth revision":   rpctypes.ErrGRPCAuthOldRevision,
		"no error of a reply": errors.New("the wire is on fire"),
	}
	for c := codes.Canceled; c <= codes.Unauthenticated; c++ {
		errs[c.String()] = status.Error(c, "once")
	}
	for name, err := range errs {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				s.renew = func(n int) fate {
					if n == 1 {
						return fate{refused: err}
					}
					return fate{}
				}
				s.open = func(_ context.Context, n int) error {
					if n == 1 {
						return err
					}
					return nil
				}
				l := opened(t, s, nil, 6*time.Second)
				time.Sleep(time.Minute)
				if l.Err() != nil {
					t.Errorf("%v on the stream and at its opening ended the lease: %v", err, l.Err())
				}
				if n := s.count("open"); n != 3 {
					t.Errorf("%d streams were opened, want 3: the first broke, the second failed, the third works", n)
				}
				again := opened(t, s, nil, 6*time.Second)
				time.Sleep(time.Minute)
				if again.Err() != nil {
					t.Errorf("the next lease on the same client: %v", again.Err())
				}
			})
		})
	}
}

// A late reply to an older request says nothing about the one that is waited for.
//
// https://github.com/etcd-io/etcd/pull/5603
func TestLateReplyIsNeverTakenForThatToANewerRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 6 * time.Second
		s := newServer()
		s.renew = func(n int) fate {
			if n == 0 {
				return fate{reply: 1500 * time.Millisecond} // by then it has been sent again
			}
			return fate{dropped: true}
		}
		l := opened(t, s, nil, ttl)
		<-l.Context().Done()
		renewals := s.times("renew")
		if len(renewals) < 2 {
			t.Fatalf("%d renewals were sent, want more", len(renewals))
		}
		if got, want := time.Since(renewals[0]), ttl-margin(ttl); got != want {
			t.Errorf("the context ended %v after the renewal that was answered, want %v", got, want)
		}
	})
}

// https://github.com/hashicorp/consul/issues/18271, https://github.com/etcd-io/etcd/issues/7321
func TestSilentStreamIsLeftWithinTheLimitOfOneAttempt(t *testing.T) {
	for name, silent := range map[string]func(*server){
		"Recv never returns": func(s *server) { s.renew = onlyFirst(fate{dropped: true}) },
		"Send never returns": func(s *server) { s.renew = onlyFirst(fate{hangs: true}) },
		"opening never returns": func(s *server) {
			s.open = func(ctx context.Context, n int) error {
				if n == 0 {
					<-ctx.Done()
					return status.FromContextError(ctx.Err()).Err()
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const ttl = 6 * time.Second
				s := newServer()
				silent(s)
				l := opened(t, s, nil, ttl)
				time.Sleep(ttl)
				if l.Err() != nil {
					t.Fatalf("one silent stream ended the lease: %v", l.Err())
				}
				opens := s.times("open")
				if len(opens) < 2 {
					t.Fatal("no other stream was opened")
				}
				if moved := opens[1].Sub(opens[0]); moved > ttl/6+ttl/12 {
					t.Errorf("the next stream was opened after %v, want a sixth of the lease and a short pause at most", moved)
				}
			})
		})
	}
}

// The streams that the client opens next may all go to the member that is silent.
//
// https://github.com/etcd-io/etcd/issues/7321, https://github.com/coredns/coredns/pull/6351
func TestThreeSilentStreamsInARowDoNotEndTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.renew = func(n int) fate { return fate{dropped: n < 3, reply: 10 * time.Millisecond} }
		l := opened(t, s, nil, 3*time.Second)
		time.Sleep(time.Minute)
		if l.Err() != nil {
			t.Errorf("three streams were silent, the fourth was not: %v", l.Err())
		}
	})
}

func onlyFirst(f fate) func(int) fate {
	return func(n int) fate {
		if n == 0 {
			return f
		}
		return fate{}
	}
}

// https://github.com/etcd-io/etcd/issues/14758
func TestReplyThatTheLeaseIsGoneEndsItAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		l := opened(t, s, nil, 6*time.Second)
		time.Sleep(time.Second)
		s.mu.Lock()
		delete(s.expiry, int64(l.ID()))
		s.mu.Unlock()
		time.Sleep(time.Second) // now the next renewal is sent
		synctest.Wait()
		if err := context.Cause(l.Context()); !errors.Is(err, ErrExpired) {
			t.Fatalf("cause = %v, want ErrExpired", err)
		}
		time.Sleep(time.Minute)
		if n := s.count("renew"); n != 1 {
			t.Errorf("%d renewals were sent, want none after the one that found the lease gone", n)
		}
	})
}

func TestRenewNowFindsOutWhetherTheLeaseStillLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		l := opened(t, s, nil, time.Hour)
		l.RenewNow(t.Context())
		if n := s.count("renew"); n != 1 || l.Err() != nil {
			t.Errorf("%d renewals, Err() = %v; want one and nil", n, l.Err())
		}
		s.mu.Lock()
		delete(s.expiry, int64(l.ID()))
		s.mu.Unlock()
		l.RenewNow(t.Context())
		if !errors.Is(l.Err(), ErrExpired) {
			t.Errorf("Err() = %v, want ErrExpired", l.Err())
		}
		l.RenewNow(t.Context()) // of a lease that is over: returns
	})
}

func TestRenewNowHeedsItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.renew = func(int) fate { return fate{dropped: true} }
		l := opened(t, s, nil, time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		l.RenewNow(ctx)
		if took := time.Since(began); took != time.Second {
			t.Errorf("RenewNow returned after %v, its context ended after 1s", took)
		}
	})
}

// Overload is no reason to give a lease up, nor to make it worse.
//
// https://github.com/etcd-io/etcd/issues/16287, https://github.com/sensu/sensu-go/issues/4500
func TestOverloadedServerIsAskedAgainWithGrowingPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		began := time.Now()
		overloaded := func(from, to time.Duration) func(int) fate {
			return func(int) fate {
				if at := time.Since(began); at >= from && at < to {
					return fate{refused: rpctypes.ErrGRPCRequestTooManyRequests}
				}
				return fate{}
			}
		}
		s.grant, s.renew = overloaded(0, 3*time.Second), overloaded(8*time.Second, 11*time.Second)
		l := opened(t, s, nil, 15*time.Second)
		if n := s.count("grant"); n < 4 || n > 20 {
			t.Errorf("a lease was asked for %d times within 3 s, want some and no storm", n)
		}
		time.Sleep(time.Minute)
		if l.Err() != nil {
			t.Errorf("3 s of overload ended a lease of 15 s: %v", l.Err())
		}
		renewals := 0
		for _, at := range s.times("renew") {
			if d := at.Sub(began); d >= 8*time.Second && d < 11*time.Second {
				renewals++
			}
		}
		if renewals < 2 || renewals > 20 {
			t.Errorf("%d renewals were sent within 3 s of overload, want some and no storm", renewals)
		}
	})
}
