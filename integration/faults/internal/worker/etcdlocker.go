//go:build unix

package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/fencedlock/fencedlock/guard"
)

var errDone = errors.New("worker: the session is done")

// openEtcdLocker makes a session of etcd's own package, used as its documentation says.
func openEtcdLocker(c *clientv3.Client, cfg Config) (locker, error) {
	s, err := concurrency.NewSession(c, concurrency.WithTTL(int(cfg.TTL/time.Second)))
	if err != nil {
		return nil, err
	}
	return etcdLocker{s, cfg.Namespace}, nil
}

type etcdLocker struct {
	s         *concurrency.Session
	namespace string
}

func (e etcdLocker) lock(ctx context.Context, name string) (held, error) {
	m := concurrency.NewMutex(e.s, e.namespace+name)
	if err := m.Lock(ctx); err != nil {
		return nil, err
	}
	h := &etcdHeld{e: e, m: m}
	// The create revision of the key would do as a token, if somebody looked at it.
	resp, err := e.s.Client().Get(ctx, m.Key())
	if err == nil && len(resp.Kvs) == 1 {
		h.tok = guard.Token(resp.Kvs[0].CreateRevision)
	}
	return h, nil
}
func (e etcdLocker) lease() clientv3.LeaseID { return e.s.Lease() }
func (e etcdLocker) err() error              { return isDone(e.s) }

// close ends the session as far as it can be ended: it knows no context, so a dead etcd would be waited for.
func (e etcdLocker) close() error { return e.s.Close() }

type etcdHeld struct {
	e   etcdLocker
	m   *concurrency.Mutex
	tok guard.Token
}

func (h *etcdHeld) Token() guard.Token { return h.tok }
func (h *etcdHeld) Err() error         { return isDone(h.e.s) }

func (h *etcdHeld) Unlock() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := h.m.Unlock(ctx); err != nil {
		return fmt.Errorf("worker: unlock: %w", err)
	}
	return nil
}

func isDone(s *concurrency.Session) error {
	select {
	case <-s.Done():
		return errDone
	default:
		return nil
	}
}
