package etcdtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"google.golang.org/grpc"
)

// Member is one server of a Cluster. Its methods are safe for concurrent use.
type Member struct {
	cluster  *Cluster
	name     string
	client   url.URL
	peer     url.URL // where it listens for other members
	proxy    *Proxy  // what other members know instead, see newMembers
	initial  string  // the cluster's members in etcd's notation
	dir      string
	opts     Options
	lifeline sync.Mutex // held while starting and stopping

	mu   sync.Mutex
	etcd *embed.Etcd    // nil while stopped, and with Options.Program; guarded by mu
	proc *process       // with Options.Program: nil while stopped; guarded by mu
	rpc  []*grpc.Server // of the current run; guarded by mu
}

// newMembers picks names and ports. Members are not started, but proxies are: members talk to each other through them,
// since etcd leaves connections between members open for seconds after both have stopped, and only cutting them in the
// middle ends them.
func newMembers(c *Cluster, o Options) ([]*Member, error) {
	ports, err := freePorts(2 * o.Members)
	if err != nil {
		return nil, err
	}
	scheme := "http"
	if o.TLS {
		scheme = "https"
	}
	var members []*Member
	var initial []string
	for i := range o.Members {
		name := fmt.Sprintf("m%d", i)
		m := &Member{
			cluster: c,
			name:    name,
			client:  url.URL{Scheme: scheme, Host: ports[2*i]},
			peer:    url.URL{Scheme: "http", Host: ports[2*i+1]},
			dir:     filepath.Join(c.dir, name),
			opts:    o,
		}
		if m.proxy, err = NewProxy(m.peer.String()); err != nil {
			return members, err
		}
		// A starting member asks the others whether they know it, and waits two seconds for one that listens and does not
		// answer yet; being refused costs nothing.
		m.proxy.Refuse()
		members = append(members, m)
		initial = append(initial, name+"="+m.proxy.Endpoint())
	}
	for _, m := range members {
		m.initial = strings.Join(initial, ",")
	}
	return members, nil
}

// freePorts returns n different loopback addresses on which nobody listens. They lie below the range from which
// kernels take ports for outgoing connections, so that a stopped member usually finds its port free again.
func freePorts(n int) ([]string, error) {
	const low, high, tries = 20000, 32000, 1000
	var addrs []string
	for range tries {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", low+rand.IntN(high-low)))
		if err != nil {
			continue
		}
		defer l.Close()
		if addrs = append(addrs, l.Addr().String()); len(addrs) == n {
			return addrs, nil
		}
	}
	return nil, fmt.Errorf("etcdtest: found %d of %d free ports from %d to %d", len(addrs), n, low, high)
}

func (m *Member) config() *embed.Config {
	cfg := embed.NewConfig()
	cfg.Name = m.name
	cfg.Dir = m.dir
	cfg.InitialCluster = m.initial
	cfg.InitialClusterToken = m.cluster.token()
	cfg.ListenPeerUrls = []url.URL{m.peer}
	cfg.AdvertisePeerUrls = []url.URL{{Scheme: m.peer.Scheme, Host: m.proxy.Addr()}}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{m.client}, []url.URL{m.client}
	// With a listener of its own for HTTP, gRPC has the client port to itself: no protocol sniffing, and no HTTP server
	// that waits for connections when the member stops.
	cfg.ListenClientHttpUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg.EnableGRPCGateway = false
	cfg.TickMs = uint(m.opts.Tick.Milliseconds())
	cfg.ElectionMs = 10 * cfg.TickMs
	cfg.AuthTokenTTL = uint(m.opts.AuthTokenTTL.Seconds())
	cfg.BcryptCost = 4 // the smallest that bcrypt knows: each login costs milliseconds
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(m.cluster.log.logger(m.name))
	if tls := m.cluster.certs; tls != nil {
		cfg.ClientTLSInfo.TrustedCAFile = tls.CAFile
		cfg.ClientTLSInfo.CertFile = tls.serverCert
		cfg.ClientTLSInfo.KeyFile = tls.serverKey
		cfg.ClientTLSInfo.ClientCertAuth = true
	}
	if m.opts.Configure != nil {
		m.opts.Configure(cfg)
	}
	return cfg
}

// start runs the member and returns when it serves clients.
func (m *Member) start(ctx context.Context) error {
	m.lifeline.Lock()
	defer m.lifeline.Unlock()
	if m.running() {
		return nil
	}
	if m.opts.Program != "" {
		return m.startProcess(ctx)
	}
	cfg := m.config()
	serving := make(chan *grpc.Server, 1)
	cfg.ServiceRegister = func(s *grpc.Server) { serving <- s }
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return fmt.Errorf("etcdtest: starting member %s: %w", m.name, err)
	}
	m.proxy.Heal()
	var rpc []*grpc.Server
	select {
	case s := <-serving:
		rpc = append(rpc, s)
	case err = <-e.Err():
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	m.mu.Lock()
	m.etcd, m.rpc = e, rpc
	m.mu.Unlock()
	if err != nil {
		m.stop()
		return fmt.Errorf("etcdtest: member %s is not ready: %w\n%s", m.name, err, m.cluster.Log())
	}
	return nil
}

// Stop ends the member at once: connections of clients break, leadership is not handed over, data and ports are kept for
// Restart. A stopped member stays stopped. For connections that fall silent instead of breaking use a Proxy.
func (m *Member) Stop() {
	m.lifeline.Lock()
	defer m.lifeline.Unlock()
	m.stop()
}

func (m *Member) stop() {
	m.mu.Lock()
	e, rpc, proc := m.etcd, m.rpc, m.proc
	m.etcd, m.rpc, m.proc = nil, nil, nil
	m.mu.Unlock()
	if proc != nil {
		m.proxy.Refuse()
		proc.kill()
	}
	if e == nil {
		return
	}
	// Close alone would wait seconds for open watches, and would move the leadership first.
	for _, s := range rpc {
		s.Stop()
	}
	e.Server.HardStop()
	m.proxy.Refuse()
	e.Close()
}

// Restart starts a stopped member with its data on its old ports, after stopping it if need be. It returns when the member
// serves clients, which a member of a cluster without majority does not; ctx bounds that.
func (m *Member) Restart(ctx context.Context) error {
	m.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := m.start(ctx)
		if !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
		// Somebody sits on the port, most often an outgoing connection that will be gone soon.
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

// Isolate cuts the member off from the other members, in both directions and until Rejoin, while its clients stay
// connected. It lasts no longer than the run of each member: a restart of either mends that pair.
func (m *Member) Isolate() {
	m.eachPeer(func(from, to *etcdserver.EtcdServer) { from.CutPeer(to.MemberID()) })
}

// Rejoin ends Isolate.
func (m *Member) Rejoin() {
	m.eachPeer(func(from, to *etcdserver.EtcdServer) { from.MendPeer(to.MemberID()) })
}

func (m *Member) eachPeer(do func(from, to *etcdserver.EtcdServer)) {
	self := m.Server()
	for _, other := range m.cluster.members {
		if peer := other.Server(); other != m && self != nil && peer != nil {
			do(self, peer)
			do(peer, self)
		}
	}
}

// Endpoint is the member's client URL.
func (m *Member) Endpoint() string { return m.client.String() }

// Server is the embedded server of the current run, nil while the member is stopped and with Options.Program: for
// questions about its insides that have no API.
func (m *Member) Server() *etcdserver.EtcdServer {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.etcd == nil {
		return nil
	}
	return m.etcd.Server
}

func (m *Member) running() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.etcd != nil || m.proc != nil
}

func (m *Member) status() (self, leader uint64, ok bool) {
	if m.opts.Program != "" {
		return 1, 1, m.running() // it is alone, and serves only when it leads
	}
	s := m.Server()
	if s == nil {
		return 0, 0, false
	}
	return uint64(s.MemberID()), s.Lead(), true
}
