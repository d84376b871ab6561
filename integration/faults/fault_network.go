//go:build unix

package main

import (
	"time"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
)

// The directions in which a worker is cut off from all of etcd.
const (
	bothWays     = etcdtest.Both
	requestsOnly = etcdtest.Requests
	repliesOnly  = etcdtest.Replies
)

// hurtNetwork does something to a worker's ways to etcd, and tells whether that has met any traffic.
func hurtNetwork(m *mate, l *life, hurt func(*etcdtest.Proxy)) strike {
	before, from := m.struck(), history.Now()
	for _, p := range m.proxies {
		hurt(p)
	}
	after := 0
	return strike{target: l.who, ways: m, from: from, undo: func() { after = m.struck(); m.heal() }, effect: func() effect {
		if after > before {
			return struck
		}
		return perhaps // what was not sent at the time may have been waiting for it
	}}
}

// cut makes the network between one worker and etcd silent while it holds a lock and goes on looking at it. What is on its
// way is delivered afterwards, or lost, by turns.
func cut(d etcdtest.Direction) fault {
	return func(n *nemesis, s step) (strike, error) {
		m, l, _, err := n.bring(s, lingering, n.name(s))
		if err != nil {
			return strike{}, err
		}
		rnd := s.rnd()
		return hurtNetwork(m, l, func(p *etcdtest.Proxy) {
			if rnd.IntN(2) == 0 {
				p.Hold(d)
			} else {
				p.BlackHole(d)
			}
		}), nil
	}
}

// halfOpen makes one of a worker's three endpoints swallow everything.
func halfOpen(n *nemesis, s step) (strike, error) {
	m := n.mates(s)[0]
	bad := m.proxies[s.rnd().IntN(len(m.proxies))]
	return hurtNetwork(m, m.now(), func(p *etcdtest.Proxy) {
		if p == bad {
			p.BlackHole(etcdtest.Both)
		}
	}), nil
}

// delayReplies makes etcd's answers slow while a worker holds a lock.
func delayReplies(n *nemesis, s step) (strike, error) {
	m, l, _, err := n.bring(s, lingering, n.name(s))
	if err != nil {
		return strike{}, err
	}
	d := time.Duration(100+s.rnd().IntN(700)) * time.Millisecond
	return hurtNetwork(m, l, func(p *etcdtest.Proxy) { p.Delay(etcdtest.Replies, d) }), nil
}

// resetConnections breaks all of a worker's connections to etcd.
func resetConnections(n *nemesis, s step) (strike, error) {
	m := n.mates(s)[0]
	return hurtNetwork(m, m.now(), (*etcdtest.Proxy).Cut), nil
}
