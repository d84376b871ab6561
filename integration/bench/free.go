package main

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
)

// free measures lock and unlock where nobody else wants the lock, beside what etcd itself needs for as many requests.
func (b *bench) free(ctx context.Context) error {
	return withSites(ctx, b.dir, 1, func(_ *etcdtest.Cluster, sites []*site) error {
		s := sites[0]
		put := b.plainPut(s)
		txn := b.bareTransactions(s)
		got, err := inTurn(ctx, b.size.rounds, b.size.slice,
			alone(s.theirMutex("free")), alone(s.ourMutex("free")), put, txn)
		if err != nil {
			return err
		}
		theirs, ours := got[0].median(), got[1].median()
		b.report(latencies("lock + unlock, nobody else", theirs, ours).atLeast(0.90))
		// On a machine that others use, the quicker ones are those that nothing interrupted.
		b.report(latencies("  the quickest tenth takes at most", quantile(got[0].took, 0.1), quantile(got[1].took, 0.1)))
		b.report(latencies("  and with a plain put + delete for ours", theirs, got[2].median()))
		b.report(latencies("  and with our two requests, bare, for ours", theirs, got[3].median()))
		return nil
	})
}

// plainPut is the least that two requests which write can cost.
func (b *bench) plainPut(s *site) arm {
	key := fmt.Sprintf("plain/%x", s.ours.Lease())
	return arm{workers: 1, op: func(ctx context.Context, _ int) error {
		if _, err := s.client.Put(ctx, key, "", clientv3.WithLease(s.ours.Lease())); err != nil {
			return err
		}
		_, err := s.client.Delete(ctx, key)
		return err
	}}
}

// bareTransactions sends what Lock and Unlock send, without anything around it.
func (b *bench) bareTransactions(s *site) arm {
	prefix := s.ours.Internal().Namespace() + "bare%/"
	key := fmt.Sprintf("%s%x-0", prefix, s.ours.Lease())
	return arm{workers: 1, op: func(ctx context.Context, _ int) error {
		value := `{"v":1,"owner":"host.example:12345","host":"host.example","pid":12345,"ttl":60,"since":"2026-01-02T03:04:05.678Z","nonce":"0123456789abcdef0123456789abcdef"}`
		got, err := s.client.Txn(ctx).
			If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0), s.ours.Internal().Epoch()).
			Then(clientv3.OpPut(key, value, clientv3.WithLease(s.ours.Lease())),
				clientv3.OpGet(prefix, clientv3.WithPrefix(), clientv3.WithLimit(2), clientv3.WithKeysOnly(),
					clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend))).
			Commit()
		if err != nil {
			return err
		}
		_, err = s.client.Txn(ctx).
			If(clientv3.Compare(clientv3.ModRevision(key), "=", got.Header.Revision)).
			Then(clientv3.OpDelete(key)).
			Commit()
		return err
	}}
}
