//go:build unix

package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
	"github.com/fencedlock/fencedlock/integration/faults/internal/worker"
)

// pauseAnywhere stops a worker with SIGSTOP, wherever it is.
func pauseAnywhere(n *nemesis, s step) (strike, error) {
	l := n.mates(s)[0].now()
	if !l.stop() {
		return strike{}, errNotNow
	}
	return strike{target: l.who, undo: l.resume}, nil
}

// pauseInside lets a worker stop itself in the middle of its guarded step.
func pauseInside(n *nemesis, s step) (strike, error) {
	_, l, from, err := n.bring(s, inside, n.name(s))
	if err != nil {
		return strike{}, err
	}
	return strike{target: l.who, from: from, undo: l.resume}, nil
}

// beyond is how much longer a pause may last, so that it outlasts the lease.
const beyond = 4 * time.Second

// pauseAfterRead lets a worker stop itself between reading and writing, until another has the lock: its write comes too
// late.
func pauseAfterRead(n *nemesis, s step) (strike, error) {
	name, leave := n.aim(s)
	m, l, from, err := n.bring(s, afterRead, name)
	if err != nil {
		leave(false)
		return strike{}, err
	}
	own, known := n.head(name)
	return strike{target: l.who, from: from, undo: func() {
		overtaken := false
		for end := time.Now().Add(beyond); known && !overtaken && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			next, ok := n.head(name)
			overtaken = ok && next.token > own.token
		}
		time.Sleep(100 * time.Millisecond) // for the other to write
		l.resume()
		m.loose.Go(func() {
			if n.mode == worker.Guarded {
				overtaken = overtaken && l.said(fmt.Sprintf("refused %s %d", name, own.token), time.Second)
			}
			leave(overtaken)
		})
	}}, nil
}

// aim returns the name at which the fewest late writes were made so far, so that all guards have some to refuse, and at
// which nobody is paused now.
func (n *nemesis) aim(s step) (name string, leave func(late bool)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range n.names {
		other := n.names[(s.turn+i)%len(n.names)]
		if !n.aimed[other] && (name == "" || n.late[other] < n.late[name]) {
			name = other
		}
	}
	n.aimed[name] = true
	return name, func(late bool) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.aimed[name] = false
		if late {
			n.late[name]++
		}
	}
}

// kill ends a worker with SIGKILL, and starts another in its place when the fault ends. It leaves those alone that are
// stopped, unless all are: they have something before them.
func kill(n *nemesis, s step) (strike, error) {
	may := n.mates(s)
	m := may[max(0, slices.IndexFunc(may, func(m *mate) bool { return !m.now().still() }))]
	l := m.now()
	l.kill()
	return strike{target: l.who, undo: m.replace}, nil
}

// stepClock sets the clock that a worker's sessions look at while it holds a lock, and when the fault ends sets it once
// more. A clock that was set forward stays: to set it right again would be to set it back, which is another fault, with an
// excuse of its own.
func stepClock(by, afterwards string) fault {
	return func(n *nemesis, s step) (strike, error) {
		if n.mode == worker.Etcd {
			return strike{}, errNever // it has no such clock
		}
		_, l, _, err := n.bring(s, lingering, n.name(s))
		if err != nil {
			return strike{}, err
		}
		from := history.Now()
		if !l.must("step %s", by) {
			return strike{}, errNotNow
		}
		return strike{target: l.who, from: from, undo: func() { l.must("step %s", afterwards) }}, nil
	}
}

// asked is how long the nemesis asks etcd for what it wants done.
const asked = 5 * time.Second

// revoke takes a lease away from outside, that of a lock which is held for longer than the lease lasts.
func revoke(n *nemesis, s step) (strike, error) {
	return n.take(s, func(k lockKey) string { return "lease " + strconv.FormatInt(k.lease, 10) }, func(ctx context.Context, k lockKey) (bool, error) {
		_, err := n.site.client.Revoke(ctx, clientv3.LeaseID(k.lease))
		return err == nil, err
	})
}

// deleteKey deletes the key of such a lock.
func deleteKey(n *nemesis, s step) (strike, error) {
	return n.take(s, func(k lockKey) string { return "token " + strconv.FormatInt(k.token, 10) }, n.remove)
}

// remove deletes a key of that revision, and tells whether there was one.
func (n *nemesis) remove(ctx context.Context, k lockKey) (bool, error) {
	resp, err := n.site.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(k.name), "=", k.token)).Then(clientv3.OpDelete(k.name)).Commit()
	return err == nil && resp.Succeeded, err
}

// take takes something of a lock away from its holder, who does not give it back meanwhile.
func (n *nemesis) take(s step, target func(lockKey) string, away func(context.Context, lockKey) (bool, error)) (strike, error) {
	name := n.name(s)
	if _, _, _, err := n.bring(s, lingering, name); err != nil {
		return strike{}, err
	}
	key, ok := n.head(name)
	if !ok {
		return strike{}, errNotNow
	}
	from := history.Now()
	ctx, cancel := context.WithTimeout(n.s.Context(), asked)
	defer cancel()
	done, err := away(ctx, key)
	return strike{target: target(key), from: from, effect: func() effect {
		if err != nil {
			return perhaps // its reply may be what was lost
		}
		return seen(done)
	}}, nil
}

// lockKey is the key of somebody who holds a lock.
type lockKey struct {
	name         string
	token, lease int64
}

// head finds who holds a lock: the oldest key of its queue. ok is false if there is none, or etcd is away.
func (n *nemesis) head(name string) (k lockKey, ok bool) {
	ctx, cancel := n.soon()
	defer cancel()
	resp, err := n.site.client.Get(ctx, n.queue(name), clientv3.WithFirstCreate()...)
	if err != nil || len(resp.Kvs) == 0 {
		return lockKey{}, false
	}
	kv := resp.Kvs[0]
	return lockKey{string(kv.Key), kv.ModRevision, kv.Lease}, true
}
