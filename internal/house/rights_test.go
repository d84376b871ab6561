package house

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

// right is one permission on all keys with a prefix.
type right struct {
	prefix string
	kind   clientv3.PermissionType
}

const (
	mayRead  = clientv3.PermissionType(clientv3.PermRead)
	mayWrite = clientv3.PermissionType(clientv3.PermWrite)
	mayBoth  = clientv3.PermissionType(clientv3.PermReadWrite)
)

// The README says which rights in etcd a program needs: those are enough, and less is not.
func TestTheReadmesRightsAreWhatAProgramNeeds(t *testing.T) {
	cluster := etcdtest.Start(t, nil)
	if err := cluster.EnableAuth(t.Context(), "secret"); err != nil {
		t.Fatal(err)
	}
	root := cluster.Client(t)
	named := func(s *session.Session) *lock.Mutex { return lock.NewMutex(s, "account/1") }
	beside := func(s *session.Session) *lock.Mutex { return lock.NewMutexAt(s, "/jobs/report") }
	for i, c := range []struct {
		name   string
		rights []right
		mutex  func(*session.Session) *lock.Mutex
		run    func(ctx context.Context, c *clientv3.Client, mutex func(*session.Session) *lock.Mutex) error
		enough bool
	}{
		{"the namespace", []right{{"/fencedlock/", mayBoth}}, named, useLock, true},
		{"the namespace, reading only", []right{{"/fencedlock/", mayRead}}, named, useLock, false},
		{"the namespace, writing only", []right{{"/fencedlock/", mayWrite}}, named, useLock, false},
		{"one lock", []right{{"/fencedlock/account%2F1%/", mayBoth}, {"/fencedlock/%epoch/", mayBoth}}, named, useLock, true},
		{"one lock without the sessions' own keys", []right{{"/fencedlock/account%2F1%/", mayBoth}}, named, useLock, false},
		{"another lock", []right{{"/fencedlock/account%2F2%/", mayBoth}, {"/fencedlock/%epoch/", mayBoth}}, named, useLock, false},
		{"another prefix", []right{{"/jobs/report/", mayBoth}, {"/fencedlock/%epoch/", mayBoth}}, beside, useLock, true},
		{"another prefix without the sessions' own keys", []right{{"/jobs/report/", mayBoth}}, beside, useLock, false},
		{"reading, to look", []right{{"/fencedlock/", mayRead}}, named, status, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, r := range c.rights {
				if c.enough && !strings.Contains(readme(t), r.prefix) {
					t.Errorf("the README does not name %s", r.prefix)
				}
			}
			user := fmt.Sprintf("user%d", i)
			addUser(t, root, user, c.rights)
			err := c.run(t.Context(), cluster.Client(t, etcdtest.As(user, "secret")), c.mutex)
			switch {
			case c.enough && err != nil:
				t.Errorf("not enough: %v", err)
			case !c.enough && !errors.Is(err, rpctypes.ErrPermissionDenied):
				t.Errorf("with too few rights: %v; want permission denied", err)
			}
			etcdtest.AssertEmpty(t, root, "/", 0)
		})
	}
}

func addUser(t *testing.T, root *clientv3.Client, name string, rights []right) {
	t.Helper()
	ctx := t.Context()
	_, err := root.RoleAdd(ctx, name)
	for _, r := range rights {
		if err == nil {
			_, err = root.RoleGrantPermission(ctx, name, r.prefix, clientv3.GetPrefixRangeEnd(r.prefix), r.kind)
		}
	}
	if err == nil {
		_, err = root.UserAdd(ctx, name, "secret")
	}
	if err == nil {
		_, err = root.UserGrantRole(ctx, name, name)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func status(ctx context.Context, c *clientv3.Client, mutex func(*session.Session) *lock.Mutex) error {
	s, err := session.New(ctx, c, nil)
	if err != nil {
		return err
	}
	_, err = mutex(s).Status(ctx)
	return errors.Join(err, s.Close())
}

// useLock does what programs do with a lock: it takes it while it is free and while it is not, looks at it, gives it back,
// and closes a session that holds it.
func useLock(ctx context.Context, c *clientv3.Client, mutex func(*session.Session) *lock.Mutex) (failed error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var sessions [2]*session.Session
	for i := range sessions {
		s, err := session.New(ctx, c, &session.Options{TTL: time.Minute})
		if err != nil {
			return err
		}
		sessions[i] = s
		defer func() { failed = errors.Join(failed, s.Close()) }()
	}
	first, second := mutex(sessions[0]), mutex(sessions[1])

	h, err := first.Lock(ctx)
	if err != nil {
		return err
	}
	if _, err := second.TryLock(ctx); !errors.Is(err, lock.ErrLocked) {
		return fmt.Errorf("TryLock of a held lock: %w", err)
	}
	got := make(chan error, 1)
	go func() {
		_, err := second.Lock(ctx) // held until the session is closed
		got <- err
	}()
	for waiting := false; !waiting; {
		status, err := first.Status(ctx)
		if err != nil {
			return err
		}
		waiting = len(status.Waiters) > 0
	}
	if err := h.Unlock(); err != nil {
		return err
	}
	return <-got
}
