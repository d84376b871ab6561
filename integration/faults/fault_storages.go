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

// storage is the one whose turn it is.
func (n *nemesis) storage(s step) storage { return n.site.storages[s.turn%len(n.site.storages)] }

// meet makes a worker be about to write to the storage, so that what is done meanwhile hits that write.
func (n *nemesis) meet(s step, x storage, of int, meanwhile func()) (from int64, err error) {
	_, l, _, err := n.bring(s, afterRead, x.resources[s.turn/of%len(x.resources)])
	if err != nil {
		return 0, err
	}
	from = history.Now()
	meanwhile()
	l.resume()
	return from, nil
}

func hurtStorage(h hurt) fault {
	return func(n *nemesis, s step) (strike, error) {
		x := n.storage(s)
		from, err := n.meet(s, x, len(n.site.storages), func() { h(x.proxy) })
		return strike{target: x.name, from: from, undo: x.proxy.Heal}, err
	}
}

// resetStorage cuts the connections when a write is under way.
func resetStorage(n *nemesis, s step) (strike, error) {
	x := n.storage(s)
	from, err := n.meet(s, x, len(n.site.storages), func() { x.proxy.Delay(etcdtest.Replies, 50*time.Millisecond) })
	return strike{target: x.name, from: from, undo: func() {
		time.Sleep(time.Duration(s.rnd().IntN(30)) * time.Millisecond)
		x.proxy.Cut()
		x.proxy.Heal()
	}}, err
}

// restartStorage kills a storage's server when a write is under way, and starts it again.
func restartStorage(n *nemesis, s step) (strike, error) {
	x := n.storage(s)
	from, err := n.meet(s, x, len(n.site.storages), func() { x.proxy.Delay(etcdtest.Replies, 50*time.Millisecond) })
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
		var can []storage
		for _, x := range n.site.storages {
			if x.strike[b] != nil {
				can = append(can, x)
			}
		}
		x := can[s.turn%len(can)]
		var forget func() bool
		from, err := n.meet(s, x, len(can), func() { forget = x.strike[b]() })
		if err != nil {
			return strike{}, err
		}
		came := false
		return strike{target: x.name, from: from, undo: func() { came = forget() }, effect: func() effect { return seen(came) }}, nil
	}
}
