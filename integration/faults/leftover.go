//go:build unix

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// leftInEtcd returns the keys and leases of locks that are there when all sessions were closed, and that do not go in a
// moment. The leases of those who were killed have lapsed long ago.
func leftInEtcd(ctx context.Context, c *clientv3.Client) (left []string, err error) {
	for end := time.Now().Add(ttl / 2); ; time.Sleep(50 * time.Millisecond) {
		left = nil
		keys, err := c.Get(ctx, namespace, clientv3.WithPrefix())
		if err != nil {
			return nil, err
		}
		for _, kv := range keys.Kvs {
			left = append(left, fmt.Sprintf("key %s (lease %x)", kv.Key, kv.Lease))
		}
		leases, err := c.Leases(ctx)
		if err != nil {
			return nil, err
		}
		for _, l := range leases.Leases {
			left = append(left, fmt.Sprintf("lease %x", int64(l.ID)))
		}
		if len(left) == 0 || time.Now().After(end) {
			slices.Sort(left)
			return left, nil
		}
	}
}
