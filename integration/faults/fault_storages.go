//go:build unix

package main

import (
	"strconv"
	"time"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
)

// hurt is what is done to a storage's network.
type hurt func(*etcdtest.Proxy)

func silent(p *etcdtest.Proxy)       { p.BlackHole(etcdtest.Both) }
func repliesLost(p *etcdtest.Proxy)  { p.BlackHole(etcdtest.Replies) }
func requestsLate(p *etcdtest.Proxy) { p.Hold(etcdtest.Requests) }

// storage is the one whose turn it is.
func (n *nemesis) storage(s step) storage { return n.site.storages[s.turn%len(n.site.storages)] }

// meet makes a worker be about to write to the storage, so that what is done meanwhile hits a write, and not only what
// comes before it.
func (n *nemesis) meet(s step, x storage, meanwhile func()) {
	name := x.resources[s.turn/len(n.site.storages)%len(x.resources)]
	resume, ok := n.mate(s).stopAt("after-read", name, strconv.FormatUint(s.pick, 36))
	meanwhile()
	if ok {
		time.Sleep(10 * time.Millisecond) // until it stands still
		resume()
	}
}

func hurtStorage(h hurt) fault {
	return func(n *nemesis, s step) (strike, error) {
		x := n.storage(s)
		n.meet(s, x, func() { h(x.proxy) })
		return strike{target: x.name, undo: x.proxy.Heal}, nil
	}
}

// resetStorage cuts the connections when writes are under way.
func resetStorage(n *nemesis, s step) (strike, error) {
	x := n.storage(s)
	n.meet(s, x, func() { x.proxy.Delay(etcdtest.Replies, 50*time.Millisecond) })
	return strike{target: x.name, undo: func() {
		time.Sleep(time.Duration(s.rnd().IntN(30)) * time.Millisecond)
		x.proxy.Cut()
		x.proxy.Heal()
	}}, nil
}

// restartStorage kills a storage's server when writes are under way, and starts it again.
func restartStorage(n *nemesis, s step) (strike, error) {
	x := n.storage(s)
	n.meet(s, x, func() { x.proxy.Delay(etcdtest.Replies, 50*time.Millisecond) })
	return strike{target: x.name, undo: func() {
		if err := x.restart(); err != nil {
			n.s.Fatal(err)
		}
		x.proxy.Heal()
	}}, nil
}

// strikeWrite lets one write be carried out without a reply, or late: the first that comes.
func strikeWrite(late bool) fault {
	return func(n *nemesis, s step) (strike, error) {
		var can []storage
		for _, x := range n.site.storages {
			if x.strike != nil {
				can = append(can, x)
			}
		}
		x := can[s.turn%len(can)]
		m, tag := n.mate(s), strconv.FormatUint(s.pick, 36)
		resume, ok := m.stopAt("after-read", x.resources[s.turn/len(can)%len(x.resources)], tag)
		forget := x.strike(late)
		if ok {
			time.Sleep(10 * time.Millisecond) // until it stands still
			resume()
		}
		return strike{target: x.name, undo: func() {
			if !forget() {
				n.missed(s.kind)
			}
		}}, nil
	}
}
