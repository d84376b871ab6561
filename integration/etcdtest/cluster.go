// Package etcdtest runs real etcd for tests: embedded members on loopback ports in a temporary folder, ready in well
// under a second, with means to stop and restart members, to compact, to turn on TLS and authentication, and to put
// faults between client and server on two levels: bytes (Proxy) and calls (Faults).
//
//	cluster := etcdtest.Start(t, nil)   // one member, gone when the test ends
//	client := cluster.Client(t)
//
// A package whose tests share one server starts it in TestMain with New. Nothing here is meant for production: members
// live in the test's own process, so killing the process kills them too.
package etcdtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// Options says what cluster to start. Nil means the defaults.
type Options struct {
	// Members is how many members to run: 1 (the default), 3 or 5.
	Members int

	// Dir is the folder in which the data folder is made. The default is /dev/shm where that can be written, since fsync
	// on tmpfs costs next to nothing, else the system's folder for temporary files.
	Dir string

	// Tick is etcd's heartbeat interval, default 100ms, in whole milliseconds; the election timeout is always ten of
	// them. A shorter tick finds a new leader sooner, and lowers the smallest lease that the server grants: that is 15
	// ticks rounded up to whole seconds, so 2s by default and 1s for ticks up to 66ms. Ticks below 50ms lead to needless
	// elections on a busy machine.
	Tick time.Duration

	// TLS makes members serve clients over TLS and demand a client certificate. Both come from an authority made for
	// this cluster; see Cluster.Certificates.
	TLS bool

	// AuthTokenTTL is how long a token that a client got by its password stays valid without use, whole seconds; default
	// 5m, etcd's own. It matters only after Cluster.EnableAuth.
	AuthTokenTTL time.Duration

	// Program is the path of an etcd server, of 3.4 or later, that is run in a process of its own instead of the embedded
	// one: for tests with another release. It is for one member, and takes no Configure.
	Program string

	// Configure, if set, has the last word on each member's configuration, at every start of it: a small
	// QuotaBackendBytes for the NOSPACE alarm, for example. Changing addresses or the data folder breaks Restart.
	Configure func(*embed.Config)
}

// Cluster is a running etcd cluster. Its methods are safe for concurrent use.
type Cluster struct {
	members []*Member
	dir     string
	log     *logBuffer
	certs   *Certificates // nil without TLS

	mu   sync.Mutex
	root string // root's password once EnableAuth has run; guarded by mu
}

// Start runs a cluster for the length of one test and fails the test when it cannot. When the test has failed, the
// last warnings of the members are logged.
func Start(t testing.TB, o *Options) *Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := New(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("etcdtest: last warnings of the members and clients:\n%s", c.Log())
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// New runs a cluster outside of a test: in TestMain, or in an example. It returns when every member serves and a leader
// is known; ctx bounds that and nothing later. The caller must Close it.
func New(ctx context.Context, o *Options) (*Cluster, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	if err := opts.complete(); err != nil {
		return nil, err
	}
	// A port that was free a moment ago may be taken by the time the member listens on it.
	const tries = 10
	var err error
	for range tries {
		var c *Cluster
		if c, err = start(ctx, opts); err == nil {
			return c, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("etcdtest: no free ports after %d tries: %w", tries, err)
}

func (o *Options) complete() error {
	switch o.Members {
	case 0:
		o.Members = 1
	case 1, 3, 5:
	default:
		return fmt.Errorf("etcdtest: Options.Members is %d: use 1, 3 or 5", o.Members)
	}
	if o.Program != "" && (o.Members > 1 || o.Configure != nil) {
		return errors.New("etcdtest: Options.Program runs one member, without Options.Configure")
	}
	if o.Tick == 0 {
		o.Tick = 100 * time.Millisecond
	}
	if o.Tick < time.Millisecond || o.Tick%time.Millisecond != 0 {
		return fmt.Errorf("etcdtest: Options.Tick is %v: use whole milliseconds", o.Tick)
	}
	if o.AuthTokenTTL == 0 {
		o.AuthTokenTTL = 5 * time.Minute
	}
	if o.AuthTokenTTL < time.Second || o.AuthTokenTTL%time.Second != 0 {
		return fmt.Errorf("etcdtest: Options.AuthTokenTTL is %v: use whole seconds", o.AuthTokenTTL)
	}
	if o.Dir == "" {
		o.Dir = fastDir()
	}
	return nil
}

// fastDir is /dev/shm if files can be made there, else the system's choice.
func fastDir() string {
	const shm = "/dev/shm"
	f, err := os.CreateTemp(shm, "etcdtest-")
	if err != nil {
		return os.TempDir()
	}
	f.Close()
	os.Remove(f.Name())
	return shm
}

func start(ctx context.Context, o Options) (_ *Cluster, err error) {
	dir, err := os.MkdirTemp(o.Dir, "etcdtest-")
	if err != nil {
		return nil, fmt.Errorf("etcdtest: %w", err)
	}
	c := &Cluster{dir: dir, log: newLogBuffer()}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if o.TLS {
		if c.certs, err = newCertificates(filepath.Join(dir, "tls")); err != nil {
			return nil, err
		}
	}
	if c.members, err = newMembers(c, o); err != nil {
		return nil, err
	}
	errs := make([]error, len(c.members))
	var wg sync.WaitGroup
	for i, m := range c.members {
		wg.Go(func() { errs[i] = m.start(ctx) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if _, err := c.WaitLeader(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// Close stops all members and removes their data; nothing of them is left running. It is idempotent. Clients should be closed before.
func (c *Cluster) Close() error {
	var wg sync.WaitGroup
	for _, m := range c.members {
		wg.Go(m.Stop)
	}
	wg.Wait()
	for _, m := range c.members {
		m.proxy.Close()
	}
	if err := os.RemoveAll(c.dir); err != nil {
		return fmt.Errorf("etcdtest: %w", err)
	}
	return nil
}

// token tells this cluster's members from those of another.
func (c *Cluster) token() string { return filepath.Base(c.dir) }

// Endpoints are the client URLs of all members, of stopped ones too.
func (c *Cluster) Endpoints() []string {
	var eps []string
	for _, m := range c.members {
		eps = append(eps, m.Endpoint())
	}
	return eps
}

// Member returns the i-th member, counted from 0.
func (c *Cluster) Member(i int) *Member { return c.members[i] }

// Members is how many members the cluster has, stopped ones too.
func (c *Cluster) Members() int { return len(c.members) }

// Leader is the index of the member that leads and is known to do so by a majority, -1 if there is none.
func (c *Cluster) Leader() int {
	votes := make(map[uint64]int)
	ids := make(map[uint64]int)
	for i, m := range c.members {
		self, leader, ok := m.status()
		if !ok {
			continue
		}
		ids[self] = i
		votes[leader]++
	}
	for id, i := range ids {
		if votes[id] > len(c.members)/2 {
			return i
		}
	}
	return -1
}

// WaitLeader waits until there is a leader, see Leader, and returns its index. The error is that of ctx, wrapped.
func (c *Cluster) WaitLeader(ctx context.Context) (int, error) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if i := c.Leader(); i >= 0 {
			return i, nil
		}
		select {
		case <-ctx.Done():
			return -1, fmt.Errorf("etcdtest: no leader: %w\n%s", context.Cause(ctx), c.Log())
		case <-tick.C:
		}
	}
}

// Log returns the last warnings and errors that members, and clients made by this cluster, have logged.
func (c *Cluster) Log() string { return c.log.String() }
