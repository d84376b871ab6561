package lease

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Delete makes one attempt to delete key if its mod revision is rev, and
// reports whether it was.
func (l *Lease) Delete(ctx context.Context, key string, rev int64) (deleted bool, err error) {
	err = l.Try(ctx, func(ctx context.Context) (*pb.ResponseHeader, error) {
		resp, err := l.cfg.Client.Txn(ctx).
			If(clientv3.Compare(clientv3.ModRevision(key), "=", rev)).
			Then(clientv3.OpDelete(key)).
			Commit()
		if err != nil {
			return nil, err
		}
		deleted = resp.Succeeded
		return resp.Header, nil
	})
	return deleted, err
}

// Find makes one attempt to read key and returns nil if it does not exist.
func (l *Lease) Find(ctx context.Context, key string) (*mvccpb.KeyValue, error) {
	kvs, err := l.Range(ctx, key)
	if err != nil || len(kvs) == 0 {
		return nil, err
	}
	return kvs[0], nil
}

// Range makes one attempt of a linearizable read.
func (l *Lease) Range(ctx context.Context, key string, opts ...clientv3.OpOption) (kvs []*mvccpb.KeyValue, err error) {
	err = l.Try(ctx, func(ctx context.Context) (*pb.ResponseHeader, error) {
		resp, err := l.cfg.Client.Get(ctx, key, opts...)
		if err != nil {
			return nil, err
		}
		kvs = resp.Kvs
		return resp.Header, nil
	})
	return kvs, err
}
