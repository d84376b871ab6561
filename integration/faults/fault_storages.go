//go:build unix

package main

import (
	"time"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
)

// hurt is what is done to a storage's network.
type hurt func(*etcdtest.Proxy)

func silent(p *etcdtest.Proxy)       { p.BlackHole(etcdtest.Both) }
func repliesLost(p *etcdtest.Proxy)  { p.BlackHole(etcdtest.Replies) }
func requestsLate(p *etcdtest.Proxy) { p.Hold(etcdtest.Requests) }

// meet makes a worker be about to write to the storage whose turn it is, of those that can be hurt so, and does that meanwhile:
// it hits that write.
func (n *nemesis) meet(s step, can func(storage) bool, hurt func(storage)) (x storage, from int64, err error) {
	var all []storage
	for _, x := range n.site.storages {
		if can(x) {
			all = append(all, x)
		}
	}
	x = all[s.turn%len(all)]
	_, l, _, err := n.bring(s, afterRead, x.resource)
	if err != nil {
		return x, 0, err
	}
	from = history.Now()
	hurt(x)
	l.resume()
	return x, from, nil
}

func hasNetwork(x storage) bool { return x.proxy != nil }
func hasServer(x storage) bool  { return x.restart != nil }

// slow makes a write wait for its reply, for what comes next.
func slow(x storage) { x.proxy.Delay(etcdtest.Replies, 50*time.Millisecond) }

func hurtStorage(h hurt) fault {
	return func(n *nemesis, s step) (strike, error) {
		x, from, err := n.meet(s, hasNetwork, func(x storage) { h(x.proxy) })
		return strike{target: x.name, from: from, undo: x.proxy.Heal}, err
	}
}

// resetStorage cuts the connections when a write is under way.
func resetStorage(n *nemesis, s step) (strike, error) {
	x, from, err := n.meet(s, hasNetwork, slow)
	return strike{target: x.name, from: from, undo: func() {
		time.Sleep(time.Duration(s.rnd().IntN(30)) * time.Millisecond)
		x.proxy.Cut()
		x.proxy.Heal()
	}}, err
}

// restartStorage kills a storage's server when a write is under way, and starts it again.
func restartStorage(n *nemesis, s step) (strike, error) {
	x, from, err := n.meet(s, hasServer, slow)
	return strike{target: x.name, from: from, undo: func() {
		if err := x.restart(); err != nil {
			n.s.Fatal(err)
		}
		x.proxy.Heal()
	}}, err
}

// strikeWrite deals a blow to one write.
func strikeWrite(b blow) fault {
	return func(n *nemesis, s step) (strike, error) {
		var forget func() bool
		x, from, err := n.meet(s, func(x storage) bool { return x.strike[b] != nil }, func(x storage) { forget = x.strike[b]() })
		if err != nil {
			return strike{}, err
		}
		came := false
		return strike{target: x.name, from: from, undo: func() { came = forget() }, effect: func() effect { return seen(came) }}, nil
	}
}
