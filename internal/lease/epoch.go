package lease

import (
	"context"
	"fmt"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// epoch is a key of the lease whose mod revision every put is compared with. A
// put whose reply was lost can land any time later; once the key has been
// written again, it fails for ever.
type epoch struct {
	key  string
	seen atomic.Int64 // the key's mod revision, 0 while it does not exist
}

func epochKey(namespace string, id clientv3.LeaseID) string {
	return fmt.Sprintf("%s%%epoch/%x", namespace, int64(id))
}

// Epoch returns the condition of a put that is made now.
func (l *Lease) Epoch() clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(l.epoch.key), "=", l.epoch.seen.Load())
}

// LearnEpoch reads the key, for one whose put found that it has moved. A key that
// somebody has deleted is written anew: puts that were sent before there was one
// could land again.
func (l *Lease) LearnEpoch(ctx context.Context) error {
	found, err := l.Find(ctx, l.epoch.key)
	switch {
	case err != nil:
		return err
	case found != nil:
		l.epoch.advance(found.ModRevision)
		return nil
	case l.epoch.seen.Load() == 0:
		return nil // it was not the epoch that had moved
	}
	return l.moveEpoch(ctx)
}

// moveEpoch writes the key, which ends all puts that were sent before.
func (l *Lease) moveEpoch(ctx context.Context) error {
	return l.Try(ctx, func(ctx context.Context) (*pb.ResponseHeader, error) {
		resp, err := l.cfg.Client.Put(ctx, l.epoch.key, "", clientv3.WithLease(l.id))
		if err != nil {
			return nil, err
		}
		l.epoch.advance(resp.Header.Revision)
		return resp.Header, nil
	})
}

func (e *epoch) advance(rev int64) {
	for {
		old := e.seen.Load()
		if rev <= old || e.seen.CompareAndSwap(old, rev) {
			return
		}
	}
}
