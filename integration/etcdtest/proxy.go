package etcdtest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Direction names one or both ways through a Proxy.
type Direction int

const (
	Requests Direction = 1 << iota // from the client to the server
	Replies                        // from the server to the client
	Both     = Requests | Replies
)

// Proxy is a TCP relay between clients and one server, with faults that can be switched while connections are open. It
// works on bytes and knows nothing of what they mean, so TLS passes, and so does any other protocol.
//
// A client behind a proxy must not use Client.Sync nor AutoSyncInterval: it would learn the member's own address.
type Proxy struct {
	target string
	scheme string // of the target's URL, empty if it was an address
	l      *net.TCPListener
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex         // guards all below
	changed chan struct{}      // closed and replaced at every change of the state
	state   [2]lineState       // by direction: Requests, Replies
	refuse  bool               // see Refuse
	links   map[*link]struct{} // open connections
	stats   ProxyStats
}

// ProxyStats counts what passed a Proxy since it began.
type ProxyStats struct {
	Accepted int   // connections from clients
	Open     int   // of these, now
	Requests int64 // bytes delivered to the server
	Replies  int64 // bytes delivered to clients
	Struck   int   // pieces of traffic that a fault has delayed, held or lost, and connections that one has reset
}

// NewProxy starts a proxy on a free loopback port. The target is a URL such as Member.Endpoint, or host:port. The target
// need not be up. The caller must Close the proxy.
func NewProxy(target string) (*Proxy, error) {
	p := &Proxy{target: target, changed: make(chan struct{}), links: make(map[*link]struct{})}
	if strings.Contains(target, "://") {
		u, err := url.Parse(target)
		if err != nil {
			return nil, fmt.Errorf("etcdtest: proxy: %w", err)
		}
		p.scheme, p.target = u.Scheme, u.Host
	}
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, fmt.Errorf("etcdtest: proxy: %w", err)
	}
	p.l = l
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.wg.Go(p.accept)
	return p, nil
}

// StartProxy is NewProxy for a test: it fails the test on error and closes the proxy when the test ends. Start it before
// the clients that use it, so that these are closed first.
func StartProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p, err := NewProxy(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// Via makes a client talk to these proxies instead of the members.
func Via(proxies ...*Proxy) Edit {
	return func(cfg *clientv3.Config) {
		cfg.Endpoints = nil
		for _, p := range proxies {
			cfg.Endpoints = append(cfg.Endpoints, p.Endpoint())
		}
	}
}

// Addr is the address on which the proxy listens, host:port.
func (p *Proxy) Addr() string { return p.l.Addr().String() }

// Endpoint is the proxy's address with the scheme of the target's URL, or bare if the target had none.
func (p *Proxy) Endpoint() string {
	if p.scheme == "" {
		return p.Addr()
	}
	return p.scheme + "://" + p.Addr()
}

// Delay makes every byte that arrives from now on take d longer. It is latency, not a limit of the rate: any number of
// bytes travels at the same time. Bytes keep their order, so those that follow slower ones wait for them.
func (p *Proxy) Delay(dir Direction, d time.Duration) {
	p.change(dir, func(s *lineState) { s.delay = d })
}

// Hold makes the network silent in that direction: connections stay open and nothing arrives, not even the end of a
// connection, until Heal delivers all of it in order. That is what TCP makes of a short partition. The other end
// notices nothing but silence; what was held may take effect long after its sender gave up.
func (p *Proxy) Hold(dir Direction) { p.change(dir, func(s *lineState) { s.mode = holding }) }

// BlackHole makes the network silent like Hold, but what is sent is lost, and so is what was held or under way. New
// connections are accepted and meet the same silence. Heal resets the connections that lost something, since TCP never
// leaves a gap. BlackHole(Replies) loses replies only: requests are carried out, and clients never know.
func (p *Proxy) BlackHole(dir Direction) { p.change(dir, func(s *lineState) { s.mode = losing }) }

// Cut resets all open connections at once. New ones are served.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k := range p.links {
		k.reset()
		p.stats.Struck++
	}
}

// Refuse resets all open connections, and each new one as soon as it is made, until Heal.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	p.refuse = true
	p.mu.Unlock()
	p.Cut()
}

// Heal ends every fault. Bytes that are under way with a delay keep it.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k := range p.links {
		if k.lossy {
			k.reset()
		}
	}
	p.refuse = false
	p.state = [2]lineState{}
	p.announce()
}

// Stats counts connections and bytes.
func (p *Proxy) Stats() ProxyStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	for k := range p.links {
		if k.ctx.Err() == nil {
			s.Open++
		}
	}
	return s
}

// Close resets all connections and returns when nothing of the proxy is left running. It is idempotent.
func (p *Proxy) Close() {
	p.cancel()
	p.l.Close()
	p.Cut()
	p.wg.Wait()
}

func (p *Proxy) change(dir Direction, edit func(*lineState)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.state {
		if dir&(1<<i) != 0 {
			edit(&p.state[i])
		}
	}
	p.announce()
}

// announce wakes whoever waits for a change. p.mu is held.
func (p *Proxy) announce() {
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Proxy) accept() {
	for {
		conn, err := p.l.AcceptTCP()
		if err != nil {
			if p.ctx.Err() != nil {
				return
			}
			time.Sleep(10 * time.Millisecond) // out of file descriptors, most likely
			continue
		}
		k := newLink(p, conn)
		p.mu.Lock()
		p.stats.Accepted++
		if p.refuse || p.ctx.Err() != nil {
			k.reset()
			p.stats.Struck++
		} else {
			p.links[k] = struct{}{}
			p.wg.Go(k.run)
		}
		p.mu.Unlock()
	}
}

func (p *Proxy) look(i int) (lineState, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state[i], p.changed
}

// judge says what to do with a parcel of l that is due, and marks the link if it is to be lost.
func (p *Proxy) judge(l *line, due bool) (lineMode, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	mode := p.state[l.dir].mode
	if due && mode == losing {
		l.lossy = true
	}
	return mode, p.changed
}

func (p *Proxy) struck() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Struck++
}

func (p *Proxy) delivered(i, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i == 0 {
		p.stats.Requests += int64(n)
	} else {
		p.stats.Replies += int64(n)
	}
}
