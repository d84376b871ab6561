package session_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

// In each round Close comes while a renewal is on its way out, at the server or on its way back.
//
// https://github.com/tristanls/dynamodb-lock-client/issues/1, https://github.com/swarthy/redis-semaphore/pull/206
func TestCloseWhileARenewalIsUnderWayLeavesNothing(t *testing.T) {
	faults, client := faulty(t)
	sent := make(chan struct{}, 1)
	faults.Stream("LeaseKeepAlive", -1, etcdtest.StreamHook{Send: func(context.Context, any) error {
		sent <- struct{}{}
		return nil
	}})
	warm := open(t, client, time.Minute)
	if err := warm.Close(); err != nil || left(t, warm.Lease()) != -1 { // both connections are up now
		t.Fatal(err)
	}
	running := goleak.IgnoreCurrent()

	for range 200 {
		s, err := session.New(t.Context(), client, &session.Options{TTL: time.Minute, Namespace: namespace(t)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Put(t.Context(), namespace(t)+"key", "", clientv3.WithLease(s.Lease())); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() { s.Internal().RenewNow(t.Context()) })
		<-sent
		time.Sleep(rand.N(600 * time.Microsecond))
		if err := s.Close(); err != nil {
			t.Fatalf("Close = %v", err)
		}
		if cause := context.Cause(s.Context()); cause != session.ErrClosed || !errors.Is(s.Err(), session.ErrClosed) {
			t.Fatalf("cause = %v, Err() = %v; want ErrClosed: the session was not lost", cause, s.Err())
		}
		wg.Wait()
		if l := left(t, s.Lease()); l != -1 {
			t.Fatalf("the server keeps the lease for %d s", l)
		}
	}
	etcdtest.AssertEmpty(t, direct, namespace(t), time.Second)
	if err := goleak.Find(running); err != nil {
		t.Error(err)
	}
	messages := faults.Count("").Sent + faults.Count("").Calls
	time.Sleep(100 * time.Millisecond)
	if n := faults.Count("").Sent + faults.Count("").Calls; n != messages {
		t.Errorf("%d calls were made after everything had been closed", n-messages)
	}
}

// https://github.com/etcd-io/etcd/pull/7007, https://github.com/etcd-io/etcd/issues/9935
func TestCloseAfterTheClientWasClosedSaysWhenTheLocksAreFree(t *testing.T) {
	client := cluster.Client(t)
	s := open(t, client, 5*time.Second)
	h, err := lock.NewMutex(s, "job").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	client.Close()
	ended(t, s, 5*time.Second)
	if err := s.Err(); !errors.Is(err, session.ErrExpired) || !strings.Contains(err.Error(), "client was closed") {
		t.Errorf("Err() = %v, want ErrExpired because the client was closed", err)
	}
	if err := h.Err(); !errors.Is(err, lock.ErrLost) {
		t.Errorf("the lock's Err() = %v, want ErrLost", err)
	}
	began := time.Now()
	err = s.Close()
	if err == nil || !strings.Contains(err.Error(), "abandoned") || !strings.Contains(err.Error(), "lapses, in about") {
		t.Errorf("Close = %v, want an error that says that the lease was abandoned and when it lapses", err)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("Close took %v", took)
	}
	if l := left(t, s.Lease()); l <= 0 || l > 5 {
		t.Errorf("the server keeps the lease for %d s", l)
	}
}

func TestCloseFreesTheLocksAtOnce(t *testing.T) {
	s, other := open(t, direct, time.Minute), open(t, direct, time.Minute)
	if _, err := lock.NewMutex(s, "job").Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	h, err := lock.NewMutex(other, "job").TryLock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Unlock(); err != nil {
		t.Error(err)
	}
}

func TestCloseMayBeCalledAgainAndByMany(t *testing.T) {
	faults, client := faulty(t)
	s := open(t, client, time.Minute)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := s.Close(); err != nil {
				t.Errorf("Close = %v", err)
			}
			if !errors.Is(s.Err(), session.ErrClosed) || s.Context().Err() == nil || s.Remaining() != 0 {
				t.Errorf("after Close: Err() = %v, Remaining() = %v", s.Err(), s.Remaining())
			}
		})
	}
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	if n := faults.Count("LeaseRevoke").Calls; n != 1 {
		t.Errorf("%d revokes were sent, want 1", n)
	}
}

func TestCloseOfASessionThatTheServerForgotIsNoError(t *testing.T) {
	s := open(t, direct, time.Minute)
	if _, err := direct.Revoke(t.Context(), s.Lease()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close = %v, and there is nothing left to free", err)
	}
}

// A renewal that meets a revoke half-way can be told that a dying lease lives. The next one finds out, and so does the lock,
// by its own key.
//
// https://github.com/etcd-io/etcd/issues/14758, https://github.com/etcd-io/etcd/pull/21389
func TestRenewalThatRacesWithARevokeLeavesNoLivingSession(t *testing.T) {
	for range 50 {
		s := open(t, direct, time.Minute)
		h, err := lock.NewMutex(s, "job").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			time.Sleep(rand.N(500 * time.Microsecond))
			s.Internal().RenewNow(t.Context())
		})
		if _, err := direct.Revoke(t.Context(), s.Lease()); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		s.Internal().RenewNow(t.Context())
		if !errors.Is(s.Err(), session.ErrExpired) || !errors.Is(h.Err(), lock.ErrLost) {
			t.Fatalf("the session's Err() = %v, the lock's = %v; want ErrExpired and ErrLost", s.Err(), h.Err())
		}
	}
}

// The server says that the lease lives, and all its keys are gone: the lock tells by its own key.
//
// https://github.com/etcd-io/etcd/issues/14758
func TestLeaseThatLivesWithoutItsKeysHoldsNoLock(t *testing.T) {
	s := open(t, direct, time.Minute)
	h, err := lock.NewMutex(s, "job").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := direct.Delete(t.Context(), h.Key()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-h.Context().Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the hold did not end")
	}
	if cause := context.Cause(h.Context()); !errors.Is(cause, lock.ErrLost) {
		t.Errorf("cause = %v, want ErrLost", cause)
	}
	s.Internal().RenewNow(t.Context())
	if err := s.Err(); err != nil {
		t.Errorf("the session ended as well: %v", err)
	}
}
