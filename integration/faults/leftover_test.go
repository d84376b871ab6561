//go:build unix

package main

import (
	"fmt"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
)

func TestWhatIsLeftInEtcdIsFound(t *testing.T) {
	c := etcdtest.Start(t, nil).Client(t)
	ctx := t.Context()
	found := func(what string, want ...string) {
		t.Helper()
		if got, err := leftInEtcd(ctx, c); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v; want %q", what, got, err, want)
		}
	}
	put := func(key string, o ...clientv3.OpOption) {
		t.Helper()
		if _, err := c.Put(ctx, key, "", o...); err != nil {
			t.Fatal(err)
		}
	}
	put("/data/list") // of a storage
	found("nothing")

	put(namespace + "a%/1-0")
	found("a key without a lease", "key /faults/a%/1-0 (lease 0)")
	if _, err := c.Delete(ctx, namespace, clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}

	lease, err := c.Grant(ctx, 600)
	if err != nil {
		t.Fatal(err)
	}
	found("a lease", fmt.Sprintf("lease %x", int64(lease.ID)))
	put(namespace+"a%epoch/1", clientv3.WithLease(lease.ID))
	found("what a session keeps beside its locks", fmt.Sprintf("key /faults/a%%epoch/1 (lease %x)", int64(lease.ID)), fmt.Sprintf("lease %x", int64(lease.ID)))

	gone := time.AfterFunc(100*time.Millisecond, func() { _, _ = c.Revoke(ctx, lease.ID) })
	defer gone.Stop()
	found("what goes by itself in a moment")
}
