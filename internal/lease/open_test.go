package lease

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A lease whose grant was slow is handed out fresh.
//
// https://github.com/mike-marcacci/node-redlock/pull/369, https://github.com/leandromoreira/redlock-rb/issues/36
func TestGrantSlowerThanAThirdOfTheLeaseIsRenewedBeforeItIsHandedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 6 * time.Second
		s := newServer()
		s.grant = func(n int) fate {
			if n < 2 {
				return fate{dropped: true} // the third attempt waits for 3 s
			}
			return fate{reply: 2500 * time.Millisecond}
		}
		l := opened(t, s, nil, ttl)
		if n := s.count("renew"); n != 1 {
			t.Errorf("%d renewals before the lease was handed out, want 1", n)
		}
		if left := l.Remaining(); left < ttl*2/3 {
			t.Errorf("the lease was handed out with %v left of %v", left, ttl)
		}
	})
}

func TestQuickGrantIsNotRenewedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		opened(t, s, nil, 6*time.Second)
		if n := s.count("renew"); n != 0 {
			t.Errorf("%d renewals before the lease was handed out, want none", n)
		}
	})
}

// https://github.com/mike-marcacci/node-redlock/pull/369, https://github.com/mike-marcacci/node-redlock/pull/167
func TestLeaseThatLapsedBeforeItCouldBeHandedOutIsAnErrorThatSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 6 * time.Second
		s := newServer()
		began := time.Now()
		s.grant = onlyFirst(fate{lost: true})
		s.renew = func(int) fate {
			if time.Since(began) < ttl {
				return fate{dropped: true}
			}
			return fate{}
		}
		_, err := openWithin(t, time.Minute, s, nil, ttl)
		if err == nil || !strings.Contains(err.Error(), "ask for a longer one") {
			t.Errorf("open = %v, want an error that says that etcd is slower than the TTL", err)
		}
	})
}

// https://github.com/etcd-io/etcd/issues/14631
func TestGrantWhoseReplyWasLostIsTakenOver(t *testing.T) {
	for name, bad := range map[string]fate{
		"in silence":        {lost: true},
		"with an error":     {err: unavailable},
		"it came very late": {request: 1500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				s.grant = onlyFirst(bad)
				l := opened(t, s, nil, 6*time.Second)
				if s.left(l.ID()) == 0 {
					t.Error("the server does not know the lease that was handed out")
				}
				time.Sleep(time.Minute)
				if l.Err() != nil || s.left(l.ID()) == 0 {
					t.Errorf("a minute later Err() = %v, at the server %v are left", l.Err(), s.left(l.ID()))
				}
				if n := s.leases(); n != 1 {
					t.Errorf("the server has %d leases, want 1", n)
				}
			})
		})
	}
}

func TestLeaseLivesThoughItsFirstRenewalWasNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.grant, s.renew = onlyFirst(fate{err: unavailable}), onlyFirst(fate{lost: true})
		l := opened(t, s, nil, 6*time.Second)
		if n := s.count("renew"); n != 2 {
			t.Errorf("%d renewals before the lease was handed out, want 2", n)
		}
		time.Sleep(time.Minute)
		if l.Err() != nil {
			t.Errorf("Err() = %v", l.Err())
		}
	})
}

func TestFewStreamsAreOpenHoweverLongAllAreSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.grant = onlyFirst(fate{err: unavailable})
		s.renew = func(int) fate { return fate{dropped: true} }
		time.AfterFunc(50*time.Second, func() {
			if n := s.live(); n == 0 || n > 4 {
				t.Errorf("%d streams are open after 50 s, want a few", n)
			}
		})
		if _, err := openWithin(t, time.Minute, s, nil, 3*time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("open = %v, want context.DeadlineExceeded", err)
		}
		if n := s.live(); n != 0 {
			t.Errorf("%d streams are left", n)
		}
	})
}

// https://github.com/etcd-io/etcd/issues/14631, https://github.com/etcd-io/etcd/issues/19778
func TestOpenWithoutADeadlineGivesUpAfterTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.grant = func(int) fate { return fate{dropped: true} }
		s.revoke = s.grant
		began := time.Now()
		_, err := open(onClock(context.Background(), nil), config(t, 6*time.Second), s)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("open = %v, want context.DeadlineExceeded", err)
		}
		if took := time.Since(began); took != openBound {
			t.Errorf("open returned after %v, want %v", took, openBound)
		}
		time.Sleep(time.Minute)
	})
}

// https://github.com/etcd-io/etcd/issues/14631
func TestOpenThatGivesUpLeavesNoLease(t *testing.T) {
	for name, c := range map[string]struct{ grant, renew fate }{
		"grant in silence":       {grant: fate{lost: true}, renew: fate{lost: true}},
		"grant with errors":      {grant: fate{err: unavailable}, renew: fate{lost: true}},
		"renewal with errors":    {grant: fate{err: unavailable}, renew: fate{refused: unavailable}},
		"renewal in silence":     {grant: fate{err: unavailable}, renew: fate{dropped: true}},
		"grant came very slowly": {grant: fate{reply: time.Minute}, renew: fate{lost: true}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				s.grant = func(int) fate { return c.grant }
				s.renew = func(int) fate { return c.renew }
				if _, err := openWithin(t, 2*time.Second, s, nil, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("open = %v, want context.DeadlineExceeded", err)
				}
				if s.count("grant") == 0 {
					t.Fatal("no lease was asked for")
				}
				synctest.Wait()
				if n := s.leases(); n != 0 {
					t.Errorf("the server keeps %d leases for an hour that nobody knows", n)
				}
			})
		})
	}
}

func TestOpenErrorNamesTheEndOfTheContextAndWhatWentWrongLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.grant = func(int) fate { return fate{refused: unavailable} }
		_, err := openWithin(t, 2*time.Second, s, nil, 6*time.Second)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, unavailable) {
			t.Errorf("open = %v, want both the end of the context and the last error", err)
		}
	})
}

func TestOpenFailsAtOnceOnWhatTryingAgainCannotCure(t *testing.T) {
	for _, refused := range []error{rpctypes.ErrGRPCNoSpace, rpctypes.ErrGRPCPermissionDenied, rpctypes.ErrGRPCAuthFailed,
		status.Error(codes.Unimplemented, "no such service")} {
		t.Run(refused.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				s.grant = func(int) fate { return fate{refused: refused} }
				_, err := openWithin(t, time.Minute, s, nil, 6*time.Second)
				if !errors.Is(err, rpctypes.Error(refused)) && !errors.Is(err, refused) {
					t.Errorf("open = %v, want %v", err, refused)
				}
				if n := s.count("grant"); n != 1 {
					t.Errorf("it was tried %d times, want once", n)
				}
			})
		})
	}
}

func TestOpenStopsWhenTheClientIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.grant = func(int) fate { return fate{refused: unavailable} }
		cfg := config(t, 6*time.Second)
		time.AfterFunc(time.Second, func() { cfg.Client.Close() })
		began := time.Now()
		_, err := open(onClock(t.Context(), nil), cfg, s)
		if !errors.Is(err, errClientClosed) || time.Since(began) > 2*time.Second {
			t.Errorf("open = %v after %v, want %v soon after 1 s", err, time.Since(began), errClientClosed)
		}
	})
}

// The server decides; all deadlines go by what it granted.
//
// https://github.com/etcd-io/etcd/issues/6025
func TestDeadlineGoesByTheGrantedLength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.least = 30 * time.Second
		l := opened(t, s, nil, 2*time.Second)
		if l.TTL() != s.least || l.Remaining() != s.least-margin(s.least) {
			t.Errorf("TTL() = %v, Remaining() = %v; want 30s and that without the margin", l.TTL(), l.Remaining())
		}
		time.Sleep(s.least)
		if n := s.count("renew"); n != 2 && n != 3 {
			t.Errorf("%d renewals in 30 s, want one every 10 s", n)
		}
	})
}
