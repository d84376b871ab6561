package session_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

// https://github.com/etcd-io/etcd/issues/14631, https://github.com/etcd-io/etcd/pull/20022
func TestNewAgainstAServerThatIsNotThereEndsWithItsContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close() // now nobody listens there
	silent := etcdtest.StartProxy(t, cluster.Endpoints()[0])
	silent.BlackHole(etcdtest.Both)
	for name, endpoint := range map[string]string{"refused": l.Addr().String(), "silent": silent.Endpoint()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := cluster.Client(t, etcdtest.At(endpoint))
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			began := time.Now()
			_, err := session.New(ctx, client, nil)
			took := time.Since(began)
			if !errors.Is(err, context.DeadlineExceeded) || took < 1900*time.Millisecond || took > 2500*time.Millisecond {
				t.Errorf("New = %v after %v, want the end of its context after 2 s", err, took)
			}
			if err != nil && !strings.Contains(err.Error(), strings.TrimPrefix(endpoint, "http://")) {
				t.Errorf("New = %q, want the endpoint in it", err)
			}
		})
	}
}

// The grant was carried out, and all replies to it are lost.
//
// https://github.com/etcd-io/etcd/issues/14631
func TestNewThatGaveUpLeavesNoLease(t *testing.T) {
	faults, client := faulty(t)
	before := leases(t)
	faults.LoseReplies("LeaseGrant", -1)
	faults.Stream("LeaseKeepAlive", -1, etcdtest.StreamHook{Open: func(context.Context) error { return etcdtest.ErrReplyLost }})
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := session.New(ctx, client, &session.Options{TTL: time.Hour}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("New = %v, want the end of its context", err)
	}
	if n := faults.Count("LeaseGrant").Calls; n == 0 {
		t.Fatal("no lease was asked for")
	}
	eventually(t, "the lease is gone", func() bool { return leases(t) == before })
}

// https://github.com/etcd-io/etcd/issues/14631
func TestNewTakesOverTheLeaseWhoseGrantWasNotAnswered(t *testing.T) {
	faults, client := faulty(t)
	before := leases(t)
	faults.LoseReplies("LeaseGrant", 1)
	s := open(t, client, time.Hour)
	if n := faults.Count("LeaseGrant").Calls; n != 2 {
		t.Errorf("a lease was asked for %d times, want twice", n)
	}
	if n := leases(t) - before; n != 1 {
		t.Errorf("there are %d new leases, want 1", n)
	}
	if l := left(t, s.Lease()); l < 3590 {
		t.Errorf("the server keeps the lease for %d s, want an hour", l)
	}
}

// https://github.com/etcd-io/etcd/issues/16287, https://github.com/etcd-io/etcd/issues/9911
func TestNewWaitsForAServerThatHasTooManyRequests(t *testing.T) {
	faults, client := faulty(t)
	began := time.Now()
	faults.Do("LeaseGrant", -1, func(ctx context.Context, call *etcdtest.Call) error {
		if time.Since(began) < 500*time.Millisecond {
			return rpctypes.ErrGRPCRequestTooManyRequests
		}
		return call.Send(ctx)
	})
	open(t, client, 15*time.Second)
	if n := faults.Count("LeaseGrant").Calls; n < 3 || n > 20 {
		t.Errorf("a lease was asked for %d times in half a second, want some and no storm", n)
	}
}

func TestNewFailsAtOnceWithoutTheRight(t *testing.T) {
	faults, client := faulty(t)
	faults.Fail("LeaseGrant", -1, rpctypes.ErrGRPCPermissionDenied)
	if _, err := session.New(t.Context(), client, nil); !errors.Is(err, rpctypes.ErrPermissionDenied) {
		t.Errorf("New = %v, want %v", err, rpctypes.ErrPermissionDenied)
	}
	if n := faults.Count("LeaseGrant").Calls; n != 1 {
		t.Errorf("a lease was asked for %d times, want once", n)
	}
}

// A renewal's header comes from the member that was asked, which may be behind the others.
func TestLaggingHeaderOfARenewalMeansNothing(t *testing.T) {
	faults, client := faulty(t)
	renewed := make(chan struct{}, 100)
	faults.Stream("LeaseKeepAlive", -1, etcdtest.StreamHook{Recv: func(_ context.Context, msg any) error {
		msg.(*pb.LeaseKeepAliveResponse).Header.Revision = 1
		renewed <- struct{}{}
		return nil
	}})
	s := open(t, client, 2*time.Second)
	m := lock.NewMutex(s, "job")
	for range 3 {
		<-renewed
		h, err := m.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Unlock(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Err(); err != nil {
		t.Errorf("the session ended: %v", err)
	}
}

// A transaction or a linearizable read that answers from the past comes from another history than the one in which the
// locks were taken.
//
// https://etcd.io/docs/latest/op-guide/recovery/#restoring-with-revision-bump
func TestAnswerFromAnOlderRevisionEndsTheSession(t *testing.T) {
	for method, rewrite := range map[string]func(reply any){
		"Txn":   func(reply any) { reply.(*pb.TxnResponse).Header.Revision = 1 },
		"Range": func(reply any) { reply.(*pb.RangeResponse).Header.Revision = 1 },
	} {
		t.Run(method, func(t *testing.T) {
			faults, client := faulty(t)
			s := open(t, client, time.Minute)
			m := lock.NewMutex(s, "job")
			h, err := m.Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			faults.Do(method, 1, func(ctx context.Context, call *etcdtest.Call) error {
				err := call.Send(ctx)
				rewrite(call.Reply)
				return err
			})
			if method == "Txn" {
				_, err = m.TryLock(t.Context())
			} else {
				_, err = m.Status(t.Context())
			}
			if !errors.Is(err, session.ErrExpired) || !strings.Contains(err.Error(), "restored") {
				t.Errorf("the call = %v, want ErrExpired and the reason", err)
			}
			if !errors.Is(s.Err(), session.ErrExpired) || !errors.Is(h.Err(), lock.ErrLost) {
				t.Errorf("the session's Err() = %v, the lock's = %v; want ErrExpired and ErrLost", s.Err(), h.Err())
			}
		})
	}
}
