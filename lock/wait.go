package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// youngestTwo reads the last keys of a queue. It needs their values, and their
// leases, which etcd does not tell with keys only.
var youngestTwo = []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithLimit(2),
	clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend)}

// enqueue puts the claim's key at the end of the queue. When it returns nil, the
// key is there and ahead is known.
func (c *claim) enqueue(ctx context.Context) error {
	absent := clientv3.Compare(clientv3.CreateRevision(c.key), "=", 0)
	// In the transaction that puts it, the own key is the youngest.
	youngest := []clientv3.Op{clientv3.OpGet(c.queue.prefix, youngestTwo...)}
	return c.retryPut(ctx, func() (settled bool, err error) {
		resp, err := c.put(ctx, absent, youngest, nil)
		if err != nil || !resp.Succeeded {
			return false, err
		}
		c.rev = c.sawYoungest(resp.Responses[1].GetResponseRange().Kvs)
		return true, nil
	})
}

// sawYoungest takes the two youngest keys, the claim's own first.
func (c *claim) sawYoungest(found []*mvccpb.KeyValue) (rev int64) {
	c.ahead = nil
	if len(found) > 1 {
		c.ahead = found[1]
	}
	return found[0].ModRevision
}

// errGone is the error of look when the claim's key is not as it was put.
var errGone = errors.New("its key was deleted or written by somebody else while it waited in the queue")

// look makes one attempt to read who is ahead. Order and identity are by
// revision; names say nothing.
func (c *claim) look(ctx context.Context) error {
	found, err := c.lease.Range(ctx, c.queue.prefix, append([]clientv3.OpOption{clientv3.WithMaxCreateRev(c.rev)}, youngestTwo...)...)
	if err != nil {
		return err
	}
	if len(found) == 0 || string(found[0].Key) != c.key || found[0].ModRevision != c.rev {
		return errGone
	}
	c.sawYoungest(found)
	return nil
}

// wait returns nil when the claim has come to the head of the queue.
func (c *claim) wait(ctx context.Context) error {
	if c.ahead == nil {
		return nil
	}
	for c.ahead != nil {
		ahead := c.ahead
		if ahead.Lease == 0 {
			return fmt.Errorf("the key %q is ahead in the queue and has no lease, so it would block for ever; "+
				"no lock wrote it that way: find out who did, and delete it", ahead.Key)
		}
		var err error
		if c.isLeftover(ahead) {
			// The sweeper is after it, too.
			if err = c.remove(ctx, ahead); err == nil {
				err = c.lease.Retry(ctx, func() error { return c.look(ctx) })
			}
		} else {
			err = c.waitFor(ctx, string(ahead.Key), ahead.ModRevision)
		}
		if err != nil {
			return c.explain(ctx, err)
		}
	}
	if c.toWatch.Stop() {
		c.toWatch.Reset(monitorHoldAfter)
	}
	return nil
}

// waitFor returns nil when the key at rev is not ahead any more.
func (c *claim) waitFor(ctx context.Context, key string, rev int64) error {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	poked := make(chan struct{}, 1)
	w := c.lease.Watch(watching, key, func() {
		select {
		case poked <- struct{}{}:
		default:
		}
	})
	reread := time.NewTimer(c.lease.Reread())
	defer reread.Stop()
	for told := false; ; {
		byTimer := false
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.ctx.Done():
			return c.whyLost()
		case <-poked:
			told = true
		case <-reread.C:
			byTimer = true
		}
		if err := c.lease.Retry(ctx, func() error { return c.look(ctx) }); err != nil {
			return err
		}
		moved := c.ahead == nil || c.ahead.ModRevision != rev
		if byTimer && (moved || !told) {
			w.Deaf()
		}
		if moved {
			return nil
		}
		reread.Reset(c.lease.Reread())
	}
}

// explain finds out why the claim's key is gone, if err says that it is.
func (c *claim) explain(ctx context.Context, err error) error {
	if !errors.Is(err, errGone) {
		return err
	}
	c.lose(ctx, err)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return c.whyLost()
}

// whyLost returns why the claim's context has ended: the session's own error if
// that is over.
func (c *claim) whyLost() error {
	if err := c.lease.Err(); err != nil {
		return err
	}
	return context.Cause(c.ctx)
}
