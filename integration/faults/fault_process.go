//go:build unix

package main

import (
	"context"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// pauseAnywhere stops a worker with SIGSTOP, wherever it is.
func pauseAnywhere(n *nemesis, s step) (strike, error) {
	m := n.mate(s)
	who := m.who()
	resume, ok := m.stop()
	if !ok {
		return strike{}, errNotNow
	}
	return strike{target: who, undo: resume}, nil
}

// pauseAt lets a worker stop itself at a place in its critical section.
func pauseAt(place string) fault {
	return func(n *nemesis, s step) (strike, error) {
		m := n.mate(s)
		who := m.who()
		resume, ok := m.stopAt(place, n.name(s), strconv.FormatUint(s.pick, 36))
		if !ok {
			return strike{}, errNotNow
		}
		return strike{target: who, undo: resume}, nil
	}
}

// stopAt makes the process take a lock and stop at a place under it. It tells whether it has within some seconds.
func (m *mate) stopAt(place, name, tag string) (resume func(), ok bool) {
	p := m.process()
	m.order("stop %s %s %s", place, tag, name)
	if !m.said("stopping "+tag, 3*time.Second) {
		m.order("go %s", tag)
		// It may have come there in this moment.
		if !m.said("stopping "+tag, 100*time.Millisecond) {
			return nil, false
		}
	}
	return m.resume(p), true
}

// kill ends a worker with SIGKILL, and starts another in its place when the fault ends.
func kill(n *nemesis, s step) (strike, error) {
	m := n.mate(s)
	who := m.who()
	m.kill()
	return strike{target: who, undo: m.replace}, nil
}

// stepClock sets the clock that a worker's sessions look at, and when the fault ends sets it once more. A clock that was set
// forward stays: to set it right again would be to set it back, which is another fault, with an excuse of its own.
func stepClock(by, afterwards string) fault {
	return func(n *nemesis, s step) (strike, error) {
		m := n.mate(s)
		m.order("step %s", by)
		return strike{target: m.who(), undo: func() { m.order("step %s", afterwards) }}, nil
	}
}

// revoke takes a lease away from outside, that of a lock which is held.
func revoke(n *nemesis, s step) (strike, error) {
	key, err := n.holder(s)
	if err != nil {
		return strike{}, err
	}
	// The history must have it before it can be noticed.
	return strike{target: "lease " + strconv.FormatInt(key.lease, 10), undo: func() {
		_, _ = n.site.client.Revoke(n.s.Context(), clientv3.LeaseID(key.lease)) // it may be gone, or etcd be away
	}}, nil
}

// deleteKey deletes the key of a lock that is held.
func deleteKey(n *nemesis, s step) (strike, error) {
	key, err := n.holder(s)
	if err != nil {
		return strike{}, err
	}
	return strike{target: "token " + strconv.FormatInt(key.token, 10), undo: func() {
		ctx, cancel := context.WithTimeout(n.s.Context(), 2*time.Second)
		defer cancel()
		_, _ = n.site.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key.name), "=", key.token)).Then(clientv3.OpDelete(key.name)).Commit()
	}}, nil
}

// lockKey is the key of somebody who holds a lock.
type lockKey struct {
	name         string
	token, lease int64
}

// holder finds one: the oldest key of a queue.
func (n *nemesis) holder(s step) (lockKey, error) {
	ctx, cancel := context.WithTimeout(n.s.Context(), 2*time.Second)
	defer cancel()
	names := n.names
	for _, i := range s.rnd().Perm(len(names)) {
		resp, err := n.site.client.Get(ctx, n.queue(names[i]), clientv3.WithFirstCreate()...)
		if err != nil {
			return lockKey{}, errNotNow // etcd is away
		}
		for _, kv := range resp.Kvs {
			return lockKey{string(kv.Key), kv.ModRevision, kv.Lease}, nil
		}
	}
	return lockKey{}, errNotNow
}
