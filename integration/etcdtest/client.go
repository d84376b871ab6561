package etcdtest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Edit changes the configuration of a client before it is made. Via, Faults.Apply, As and At are edits; a literal
// func serves for anything else.
type Edit func(*clientv3.Config)

// NewClient makes a client of all members, logged in as root if EnableAuth has run. What it logs goes to Cluster.Log.
// The caller must Close it.
func (c *Cluster) NewClient(edits ...Edit) (*clientv3.Client, error) {
	cfg := clientv3.Config{
		Endpoints:   c.Endpoints(),
		DialTimeout: 5 * time.Second,
		Logger:      c.log.logger("client"),
	}
	if c.certs != nil {
		cfg.TLS = c.certs.ClientConfig()
	}
	c.mu.Lock()
	if c.root != "" {
		cfg.Username, cfg.Password = "root", c.root
	}
	c.mu.Unlock()
	for _, edit := range edits {
		edit(&cfg)
	}
	client, err := clientv3.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("etcdtest: new client: %w", err)
	}
	return client, nil
}

// Client is NewClient for a test: it fails the test on error and closes the client when the test ends.
func (c *Cluster) Client(t testing.TB, edits ...Edit) *clientv3.Client {
	t.Helper()
	client, err := c.NewClient(edits...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// At makes the client talk to these endpoints only: those of one member, say.
func At(endpoints ...string) Edit {
	return func(cfg *clientv3.Config) { cfg.Endpoints = endpoints }
}

// Compact drops all history before the store's current revision and returns that revision. Watches that start earlier
// are told so by the server.
func (c *Cluster) Compact(ctx context.Context) (int64, error) {
	client, err := c.NewClient()
	if err != nil {
		return 0, err
	}
	defer client.Close()
	resp, err := client.Get(ctx, "\x00", clientv3.WithCountOnly())
	if err != nil {
		return 0, fmt.Errorf("etcdtest: compact: %w", err)
	}
	rev := resp.Header.Revision
	if _, err := client.Compact(ctx, rev, clientv3.WithCompactPhysical()); err != nil {
		return 0, fmt.Errorf("etcdtest: compact at %d: %w", rev, err)
	}
	return rev, nil
}

// AssertEmpty fails the test, which goes on, when keys under prefix are still there after the time within; 0 means 5s. It
// looks again and again, since cleaning up may go on in the background. An empty prefix means the whole store.
func AssertEmpty(t testing.TB, client *clientv3.Client, prefix string, within time.Duration) {
	t.Helper()
	if within == 0 {
		within = 5 * time.Second
	}
	// The test's own context has ended when this runs in a Cleanup.
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var left []string
	looked := false
	for {
		resp, err := client.Get(ctx, prefix, clientv3.WithPrefix())
		if err == nil {
			if left, looked = left[:0], true; len(resp.Kvs) == 0 {
				return
			}
			for _, kv := range resp.Kvs {
				left = append(left, fmt.Sprintf("%s = %s (lease %x, create %d, mod %d)",
					kv.Key, kv.Value, kv.Lease, kv.CreateRevision, kv.ModRevision))
			}
		}
		select {
		case <-ctx.Done():
			if !looked {
				t.Errorf("etcdtest: cannot read what is left under %q: %v", prefix, err)
				return
			}
			t.Errorf("etcdtest: left under %q after %v:\n%s", prefix, within, strings.Join(left, "\n"))
			return
		case <-tick.C:
		}
	}
}
