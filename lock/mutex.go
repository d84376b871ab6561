// Package lock has distributed locks on etcd whose holders get a fencing token.
// A lock without a guard is a hint: a holder that is paused past its lease finds
// out too late, and the write that it then makes corrupts what its successor
// wrote. So hand the token to a guard (see the package guard) with every write;
// the guard refuses it once a later holder's was seen. The lock is for liveness
// and order, the guard for correctness.
//
// What the lock gives: of the sessions that reach etcd at most one holds a name
// at any revision of the store; tokens of one name rise strictly from holder to
// holder, as long as etcd's revision does (restore it from a backup only with
// etcdutl snapshot restore --bump-revision --mark-compacted); waiters are served
// in the order in which they came to etcd, and within one session in that of
// their calls. A holder's [Held.Context] ends before its successor gets the lock
// unless the process is paused, or the key is deleted from outside.
//
// It rests on etcd's transactions, watches and leases, see
// https://etcd.io/docs/latest/learning/api_guarantees/. The queue is that of the
// ZooKeeper lock recipe: each waiter watches the one ahead of it, so a release
// wakes one.
package lock

import (
	"context"
	"errors"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/fencedlock/internal/lease"
	"github.com/fencedlock/fencedlock/session"
)

// A Mutex is a lock that one holder at a time has, anywhere in the cluster. It
// has no state of its own besides its name: it is safe for concurrent use, two of
// one name and session are the same lock, and two goroutines that lock it exclude
// each other. It is not re-entrant. Make one with [NewMutex] or [NewMutexAt].
type Mutex struct {
	lease    *lease.Lease
	name     string
	resource string
	prefix   string
	err      error // the first call's
}

// NewMutex returns the lock called name in the namespace of s. It does no I/O.
// The name is 1 to 512 bytes of valid UTF-8 without NUL, where each "%" and "#"
// counts as three, see [Held.Resource]; what is wrong with it, or with s, is the
// error of the first call.
func NewMutex(s *session.Session, name string) *Mutex {
	return newMutex(s, "name", name, func(l *lease.Lease) string { return queueOf(l.Namespace(), name) })
}

// NewMutexAt returns the lock that queues under exactly the keys that
// go.etcd.io/etcd/client/v3/concurrency.NewMutex(_, prefix) uses, so that old and
// new programs exclude each other while one moves to the other. The prefix takes
// no part in the namespace of s, which only holds a key of the session's own and
// must not lie under it.
//
// Programs that hold the lock by the old package must fence with their key's
// create revision. Its Header().Revision is another number, often larger than a
// later holder's token.
//
// As there, a lock whose prefix is another's followed by "/" shares its queue.
func NewMutexAt(s *session.Session, prefix string) *Mutex {
	m := newMutex(s, "prefix", prefix, func(*lease.Lease) string { return prefix + "/" })
	if m.err == nil {
		own := m.lease.Namespace() + "%"
		switch {
		case strings.HasPrefix(prefix, m.lease.Namespace()) && strings.HasSuffix(prefix, "%"):
			m.err = fmt.Errorf("lock: bad prefix: %.60q is the queue of a lock in the session's namespace; use NewMutex with its name, "+
				"so that both are one resource", prefix)
		case strings.HasPrefix(own, m.prefix) || strings.HasPrefix(m.prefix, own):
			m.err = fmt.Errorf("lock: bad prefix: keys that begin with %q, such as the session's own, would be in the queue of %q; "+
				"give the session another namespace", own, prefix)
		}
	}
	return m
}

func newMutex(s *session.Session, what, name string, prefix func(*lease.Lease) string) *Mutex {
	m := &Mutex{name: name}
	if s.Internal() == nil {
		m.err = fmt.Errorf("lock: %.60q: the session is nil, or was not made with session.New", name)
		return m
	}
	m.lease = s.Internal()
	m.resource, m.err = resourceOf(what, name)
	m.prefix = prefix(m.lease)
	return m
}

// begin returns the error of a call that needs no request to fail.
func (m *Mutex) begin(ctx context.Context) error {
	switch {
	case m == nil || m.lease == nil && m.err == nil:
		return errors.New("lock: the Mutex was not made with NewMutex")
	case m.err != nil:
		return m.err
	case ctx.Err() != nil:
		return fmt.Errorf("lock: %q: %w", m.name, ctx.Err())
	case m.lease.Context().Err() != nil: // requests look at the clock, too
		return fmt.Errorf("lock: %q: %w", m.name, m.lease.Err())
	}
	return nil
}

// Lock waits until the lock is held and returns the hold. ctx bounds the wait
// only: how long the lock may be held is not its business, though
// [Held.Context] keeps its values. On an error nothing is held, and no key is
// left that could come to hold the lock later; Lock does not wait until that has
// been cleaned up.
//
// Errors: that of ctx, with who was ahead; one that wraps [session.ErrExpired] or
// [session.ErrClosed] when the session is over; one that wraps [ErrLost] when
// somebody deleted or overwrote the key in the queue; one that names the key when
// one without a lease is ahead, which would block for ever; etcd's own for what
// retrying cannot cure, such as a missing right or no space. Unavailability is
// retried until ctx or the session ends.
func (m *Mutex) Lock(ctx context.Context) (*Held, error) {
	if err := m.begin(ctx); err != nil {
		return nil, err
	}
	q := queuesOf(m.lease).enter(m.prefix)
	if !q.await(ctx, m.lease.Context()) {
		q.leave()
		err := m.lease.Err()
		if err == nil {
			err = fmt.Errorf("behind another call in this session, which holds it or waits for it: %w", ctx.Err())
		}
		return nil, fmt.Errorf("lock: %q: %w", m.name, err)
	}
	c := newClaim(m, q, true)
	if err := c.enqueue(ctx); err != nil {
		return nil, c.giveUp(err)
	}
	c.live(ctx, m.resource)
	if err := c.wait(ctx); err != nil {
		if ctx.Err() != nil && c.ahead != nil {
			err = fmt.Errorf("behind %v: %w", entryOf(c.ahead), err)
		}
		return nil, c.giveUp(err)
	}
	return m.hold(c)
}

// hold hands out a claim that has come to the head of its queue, unless it is
// dead already: the reply that said so may have been a long time under way.
func (m *Mutex) hold(c *claim) (*Held, error) {
	h := &Held{claim: c, resource: m.resource}
	if err := h.Err(); err != nil {
		return nil, c.giveUp(c.whyLost())
	}
	return h, nil
}

// TryLock takes the lock if it is free and nobody waits for it, in one
// transaction. It never queues: when it is refused, nothing was written.
//
// Errors: a [*LockedError], which is [ErrLocked] and names the holder; else as
// for [Mutex.Lock]. ctx bounds the call only.
func (m *Mutex) TryLock(ctx context.Context) (*Held, error) {
	if err := m.begin(ctx); err != nil {
		return nil, err
	}
	c := newClaim(m, queuesOf(m.lease).enter(m.prefix), false)
	if err := c.seize(ctx); err != nil {
		return nil, c.giveUp(err)
	}
	c.live(ctx, m.resource)
	return m.hold(c)
}

// seize puts the claim's key if the queue is empty.
func (c *claim) seize(ctx context.Context) error {
	empty := clientv3.Compare(clientv3.CreateRevision(c.queue.prefix).WithPrefix(), "=", 0)
	first := []clientv3.Op{clientv3.OpGet(c.queue.prefix, clientv3.WithPrefix(), clientv3.WithLimit(1),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))}
	return c.retryPut(ctx, func() (settled bool, err error) {
		resp, err := c.put(ctx, empty, nil, first)
		if err != nil {
			return false, err
		}
		if resp.Succeeded {
			// The revision of the transaction that wrote the key is the key's
			// mod revision.
			c.rev = resp.Header.Revision
			return true, nil
		}
		found := resp.Responses[0].GetResponseRange().Kvs
		if len(found) == 0 || string(found[0].Key) == c.key {
			return false, nil
		}
		if c.isLeftover(found[0]) {
			return false, c.remove(ctx, found[0])
		}
		return false, &LockedError{Name: c.name, Holder: entryOf(found[0])}
	})
}

// Status reads who holds the lock and who waits, in the order of the queue, at
// one revision of etcd. It is old when it arrives: for people and dashboards, and
// not for deciding whether to write. ctx bounds the call; errors are as for
// [Mutex.Lock].
func (m *Mutex) Status(ctx context.Context) (Status, error) {
	if err := m.begin(ctx); err != nil {
		return Status{}, err
	}
	status := Status{Name: m.name}
	err := m.lease.Retry(ctx, func() error {
		found, err := m.lease.Range(ctx, m.prefix, clientv3.WithPrefix(),
			clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
		if err != nil {
			return err
		}
		for i, kv := range found {
			if i == 0 {
				status.Holders = append(status.Holders, entryOf(kv))
			} else {
				status.Waiters = append(status.Waiters, entryOf(kv))
			}
		}
		return nil
	})
	if err != nil {
		return Status{}, fmt.Errorf("lock: %q: %w", m.name, err)
	}
	return status, nil
}

// Status is who holds a lock and who waits for it.
type Status struct {
	Name    string
	Holders []Entry // none when the lock is free
	Waiters []Entry // the next one first
}
