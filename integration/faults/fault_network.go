//go:build unix

package main

import (
	"strconv"
	"time"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
)

// The directions in which a worker is cut off from all of etcd.
const (
	bothWays     = etcdtest.Both
	requestsOnly = etcdtest.Requests
	repliesOnly  = etcdtest.Replies
)

// cut makes the network between one worker and etcd silent while it holds a lock and goes on looking at it. What is on its
// way is delivered afterwards, or lost, by turns.
func cut(d etcdtest.Direction) fault {
	return func(n *nemesis, s step) (strike, error) {
		m := n.mate(s)
		n.linger(s, m)
		for _, p := range m.proxies {
			if s.rnd().IntN(2) == 0 {
				p.Hold(d)
			} else {
				p.BlackHole(d)
			}
		}
		return strike{target: m.who(), undo: m.heal}, nil
	}
}

// linger makes a worker hold a lock for long, unless it does not get it in time.
func (n *nemesis) linger(s step, m *mate) {
	tag := strconv.FormatUint(s.pick, 36)
	m.order("stop lingering %s %s", tag, n.name(s))
	if !m.said("stopping "+tag, 3*time.Second) {
		m.order("go %s", tag)
	}
}

func (m *mate) heal() {
	for _, p := range m.proxies {
		p.Heal()
	}
}

// halfOpen makes one of a worker's three endpoints swallow everything.
func halfOpen(n *nemesis, s step) (strike, error) {
	m := n.mate(s)
	m.proxies[s.rnd().IntN(len(m.proxies))].BlackHole(etcdtest.Both)
	return strike{target: m.who(), undo: m.heal}, nil
}

// delayReplies makes etcd's answers slow.
func delayReplies(n *nemesis, s step) (strike, error) {
	m := n.mate(s)
	n.linger(s, m)
	d := time.Duration(100+s.rnd().IntN(700)) * time.Millisecond
	for _, p := range m.proxies {
		p.Delay(etcdtest.Replies, d)
	}
	return strike{target: m.who(), undo: m.heal}, nil
}

// resetConnections breaks all of a worker's connections to etcd.
func resetConnections(n *nemesis, s step) (strike, error) {
	m := n.mate(s)
	for _, p := range m.proxies {
		p.Cut()
	}
	return strike{target: m.who()}, nil
}

// calls are the requests of which replies get lost, or which come late.
var calls = []string{"Txn", "Txn", "Txn", "LeaseGrant", "LeaseRevoke", "Range", "Put", "DeleteRange"}

// loseReplies lets etcd carry out some requests of a worker which is told that the connection broke.
func loseReplies(n *nemesis, s step) (strike, error) {
	m := n.mate(s)
	m.order("lose %s %s", calls[s.rnd().IntN(len(calls))], "III"[:1+s.rnd().IntN(3)])
	return strike{target: m.who(), undo: func() { m.order("pass") }}, nil
}

// lateRequests delivers one request of a worker when it has been given up.
func lateRequests(n *nemesis, s step) (strike, error) {
	m := n.mate(s)
	m.order("late %s %v", calls[s.rnd().IntN(len(calls))], time.Duration(s.rnd().IntN(2500))*time.Millisecond)
	return strike{target: m.who(), undo: func() { m.order("pass") }}, nil
}
