//go:build unix

package redistest

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/fencedlock/internal/daemon"
)

const slots = 16384

// Cluster is some servers that share the slots.
type Cluster struct {
	Servers  []*Server // the primaries
	settings []string
}

// StartCluster runs a cluster of n primaries for one test, and returns when all of them know it.
func StartCluster(t testing.TB, n int, settings ...string) *Cluster {
	t.Helper()
	c := &Cluster{settings: settings}
	for range n {
		c.Servers = append(c.Servers, c.start(t))
	}
	first := c.Servers[0].Client(t)
	for i, s := range c.Servers {
		one := s.Client(t)
		if err := one.ClusterAddSlotsRange(t.Context(), i*slots/n, (i+1)*slots/n-1).Err(); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			continue
		}
		meet(t, first, s)
	}
	c.settle(t, n)
	return c
}

func (c *Cluster) start(t testing.TB) *Server {
	t.Helper()
	return daemon.ForTest(t, func() (*Server, error) {
		return open("redistest", func(_ string, port int) []string {
			return append([]string{"--port", strconv.Itoa(port), "--save", "", "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(freePort()),
				"--cluster-node-timeout", "5000", "--repl-diskless-sync-delay", "0"}, c.settings...)
		})
	})
}

// meet makes s known to the server of first. Its bus is at a port of its own.
func meet(t testing.TB, first *redis.Client, s *Server) {
	t.Helper()
	bus, err := s.Client(t).ConfigGet(t.Context(), "cluster-port").Result()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Do(t.Context(), "cluster", "meet", "127.0.0.1", s.Port, bus["cluster-port"]).Err(); err != nil {
		t.Fatal(err)
	}
}

// settle waits until every primary knows n servers.
func (c *Cluster) settle(t testing.TB, n int) {
	t.Helper()
	for _, s := range c.Servers {
		one := s.Client(t)
		Eventually(t, "all servers know the cluster", func() bool {
			text, err := one.ClusterInfo(t.Context()).Result()
			return err == nil && hasLine(text, "cluster_state:ok") && hasLine(text, fmt.Sprintf("cluster_known_nodes:%d", n))
		})
	}
}

// StartReplica adds a replica of a primary, and returns it when it follows and all primaries name it.
func (c *Cluster) StartReplica(t testing.TB, primary *Server) *Server {
	t.Helper()
	r := c.start(t)
	meet(t, primary.Client(t), r)
	c.settle(t, len(c.Servers)+1)
	one, id := r.Client(t), primary.Client(t).ClusterMyID(t.Context()).Val()
	Eventually(t, "the replica knows its primary", func() bool { return one.ClusterReplicate(t.Context(), id).Err() == nil })
	Eventually(t, "the replica follows", func() bool {
		return infoHas(t.Context(), one, "replication", "master_link_status:up")
	})
	for _, s := range c.Servers {
		primary := s.Client(t)
		Eventually(t, "the primaries name the replica", func() bool {
			text, err := primary.ClusterNodes(t.Context()).Result()
			return err == nil && strings.Contains(text, r.Addr()+"@") && strings.Contains(text, " slave "+id+" ")
		})
	}
	return r
}

// freePort returns 0 when there is none, which the server then refuses.
func freePort() int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func hasLine(text, line string) bool {
	for l := range strings.Lines(text) {
		if strings.TrimSpace(l) == line {
			return true
		}
	}
	return false
}

// Client returns a client of the cluster that ends with the test.
func (c *Cluster) Client(t testing.TB, change ...func(*redis.ClusterOptions)) *redis.ClusterClient {
	t.Helper()
	o := &redis.ClusterOptions{}
	for _, s := range c.Servers {
		o.Addrs = append(o.Addrs, s.Addr())
	}
	for _, f := range change {
		f(o)
	}
	client := redis.NewClusterClient(o)
	closeWith(t, client)
	return client
}

// Through lets a client reach the servers through the proxies of their addresses.
func Through(proxies map[string]*Proxy) func(*redis.ClusterOptions) {
	return func(o *redis.ClusterOptions) {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if p := proxies[addr]; p != nil {
				addr = p.Addr
			}
			var d net.Dialer
			return d.DialContext(ctx, network, addr)
		}
	}
}
