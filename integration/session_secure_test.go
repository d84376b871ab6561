package integration

import (
	"errors"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

func TestSessionsAndLocksWorkOverTLS(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, &etcdtest.Options{TLS: true})
	a, b := openSession(t, cluster.Client(t), 2*time.Second), openSession(t, cluster.Client(t), 2*time.Second)
	h := held(t, a, "job")
	next := make(chan error, 1)
	go func() {
		h, err := lock.NewMutex(b, "job").Lock(t.Context())
		if err == nil {
			err = h.Unlock()
		}
		next <- err
	}()
	renewed(t, a, 5*time.Second)
	if err := h.Unlock(); err != nil {
		t.Error(err)
	}
	if err := <-next; err != nil {
		t.Error(err)
	}
}

// The token that a client got for its password ends after 2 s without use. Sessions of a user who has rights on one prefix
// only outlive it, and so do their locks.
//
// https://github.com/etcd-io/etcd/issues/11954
func TestSessionOutlivesTheTokenOfItsLogin(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, &etcdtest.Options{AuthTokenTTL: 2 * time.Second})
	if err := cluster.EnableAuth(t.Context(), "secret", etcdtest.User{Name: "tenant", Password: "pw", Prefix: "/tenant/"}); err != nil {
		t.Fatal(err)
	}
	open := func() *session.Session {
		s, err := session.New(t.Context(), cluster.Client(t, etcdtest.As("tenant", "pw")),
			&session.Options{TTL: 9 * time.Second, Namespace: "/tenant/"})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	h := held(t, s, "job")
	time.Sleep(4 * time.Second) // the token has ended, and a renewal was sent in between
	renewed(t, s, s.TTL())
	if err := h.Unlock(); err != nil {
		t.Error(err)
	}
	if err := held(t, s, "job").Unlock(); err != nil {
		t.Error(err)
	}
	other := open()
	time.Sleep(3 * time.Second)
	if err := other.Close(); err != nil {
		t.Errorf("Close after the token had ended: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
}

func TestLockOutsideOfTheUsersRightsFailsAtOnce(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, nil)
	if err := cluster.EnableAuth(t.Context(), "secret", etcdtest.User{Name: "tenant", Password: "pw", Prefix: "/tenant/"}); err != nil {
		t.Fatal(err)
	}
	s := openSession(t, cluster.Client(t, etcdtest.As("tenant", "pw")), time.Minute) // in the default namespace
	if _, err := lock.NewMutex(s, "job").Lock(t.Context()); !errors.Is(err, rpctypes.ErrPermissionDenied) {
		t.Errorf("Lock = %v, want %v", err, rpctypes.ErrPermissionDenied)
	}
}
