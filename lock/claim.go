package lock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/internal/lease"
)

// A claim is one acquisition: a key in the queue of a lock, from the request
// that puts it until it is surely gone.
//
// The key is written exactly once. A second write would lift its mod revision,
// which is the token, above those of the waiters behind it, and a guard would
// then refuse the next rightful holder. So a mod revision that changes means
// that somebody else wrote the key, and the claim is lost.
type claim struct {
	lease  *lease.Lease
	queue  *queue
	name   string // for errors
	key    string
	number int    // of the key among the session's
	value  string // of the key
	nonce  string // in value

	hasTurn  atomic.Bool             // in the queue's local line
	latePut  bool                    // a put of the key was not answered, so it may land later
	maybePut bool                    // a put of the key was refused, but may have been applied
	rev      int64                   // the key's mod revision
	ahead    *mvccpb.KeyValue        // the key to wait for; nil: the lock is held
	ctx      context.Context         // ends when the claim is lost or given up; made when rev is known
	cancel   context.CancelCauseFunc // of ctx
	unhook   func() bool             // ctx from the session's
	toWatch  *time.Timer             // starts the watch on the key
}

// newClaim registers a claim on the lock m. hasTurn tells that it has the local
// turn, which ends with the claim.
func newClaim(m *Mutex, q *queue, hasTurn bool) *claim {
	value, nonce := newRecord(q.all.recordHead)
	number := q.register(nonce)
	c := &claim{
		lease: m.lease, queue: q, name: m.name,
		key:    q.prefix + q.all.keyTail + strconv.Itoa(number),
		number: number, value: value, nonce: nonce,
	}
	c.hasTurn.Store(hasTurn)
	return c
}

// pass gives up the local turn, if the claim has it.
func (c *claim) pass() {
	if c.hasTurn.CompareAndSwap(true, false) {
		c.queue.pass()
	}
}

// put sends the transaction that writes the key if guard conditions hold and the
// epoch has not moved. An error that does not prove the opposite leaves a put
// behind that may land any time later.
func (c *claim) put(ctx context.Context, free clientv3.Cmp, then, otherwise []clientv3.Op) (*clientv3.TxnResponse, error) {
	var resp *clientv3.TxnResponse
	err := c.lease.Try(ctx, func(ctx context.Context) (*pb.ResponseHeader, error) {
		var err error
		resp, err = c.lease.Client().Txn(ctx).
			If(free, c.lease.Epoch()).
			Then(append([]clientv3.Op{clientv3.OpPut(c.key, c.value, clientv3.WithLease(c.lease.ID()))}, then...)...).
			Else(otherwise...).
			Commit()
		if err != nil {
			c.latePut = c.latePut || !lease.Certain(err)
			// etcd checks its quota again after it has applied a write.
			c.maybePut = c.maybePut || errors.Is(err, rpctypes.ErrNoSpace)
			return nil, err
		}
		return resp.Header, nil
	})
	return resp, err
}

// retryPut calls put until it has settled whether the key is there. When put has
// neither done that nor failed, the key under the claim's name is looked at: it
// may be the claim's own, put by an attempt whose reply was lost, or one of an
// earlier claim, which is deleted and never adopted, since two holds must not
// share a token. If there is none, the epoch has moved.
//
// Each request is repeated by itself. A sequence that began anew at each failure
// would meet a bad endpoint at the same step for ever, since the client takes its
// endpoints in turn.
func (c *claim) retryPut(ctx context.Context, put func() (settled bool, err error)) error {
	for {
		settled := false
		if err := c.lease.Retry(ctx, func() (err error) {
			settled, err = put()
			return err
		}); err != nil || settled {
			return err
		}
		var found *mvccpb.KeyValue
		err := c.lease.Retry(ctx, func() (err error) {
			found, err = c.lease.Find(ctx, c.key)
			return err
		})
		switch {
		case err != nil:
		case found == nil:
			err = c.lease.Retry(ctx, func() error { return c.lease.LearnEpoch(ctx) })
		case nonceOf(found.Value) == c.nonce:
			c.rev = found.ModRevision
			return c.lease.Retry(ctx, func() error { return c.look(ctx) })
		default:
			err = c.remove(ctx, found)
		}
		if err != nil {
			return err
		}
	}
}

// remove deletes a key at the revision at which it was found. That somebody has
// done so before is as good.
func (c *claim) remove(ctx context.Context, kv *mvccpb.KeyValue) error {
	return c.lease.Retry(ctx, func() error {
		_, err := c.lease.Delete(ctx, string(kv.Key), kv.ModRevision)
		return err
	})
}

// isLeftover reports whether kv is a key of this session in this queue that no
// acquisition wants any more. Its name tells: etcd's own mutex may have been given
// the session's lease, and a prefix below this one has keys here that another of
// the session's queues knows.
func (c *claim) isLeftover(kv *mvccpb.KeyValue) bool {
	number, ours := strings.CutPrefix(string(kv.Key), c.queue.prefix+c.queue.all.keyTail)
	_, err := strconv.Atoi(number)
	return ours && err == nil && clientv3.LeaseID(kv.Lease) == c.lease.ID() && !c.queue.wanted(kv.Value)
}

// live begins the claim's life in the queue. The context keeps the values of ctx
// and carries the token.
func (c *claim) live(ctx context.Context, resource string) {
	c.ctx, c.cancel = context.WithCancelCause(guard.NewContext(context.WithoutCancel(ctx), resource, guard.Token(c.rev)))
	c.unhook = context.AfterFunc(c.lease.Context(), func() { c.end(lostBecause(c.name, c.lease.Err())) })
	delay := monitorHoldAfter
	if c.ahead != nil {
		delay = monitorWaitAfter
	}
	c.toWatch = time.AfterFunc(delay, c.watchOwnKey)
	c.sweepLatePut()
}

// sweepLatePut looks after a put without an answer whose retry settled the claim. It
// can still land when the key has been deleted, so the epoch moves. Until then the
// queue stays, since only it knows which later claims want the key.
func (c *claim) sweepLatePut() {
	if !c.latePut {
		return
	}
	q := c.queue.all.enter(c.queue.prefix)
	c.lease.Sweep(lease.Suspect{Key: c.key, Wanted: q.wanted, LatePut: true, Done: func(bool) { q.leave() }})
}

// end ends ctx with cause, unless it has ended.
func (c *claim) end(cause error) {
	c.cancel(cause)
	c.pass()
}

// quiet ends all that would still start beside the claim; what runs ends with
// ctx.
func (c *claim) quiet() {
	if c.ctx != nil {
		c.unhook()
		c.toWatch.Stop()
	}
}

// leave ends the claim when its key is surely gone.
func (c *claim) leave() {
	c.queue.forget(c.nonce)
	c.gone()
}

func (c *claim) gone() {
	c.queue.free(c.number)
	c.queue.leave()
}

// abandon ends the claim when its key may be in etcd, or may still come there.
// The sweeper deletes it; nobody waits for that. done is told whether it has, or
// the session was over before; it may be nil.
func (c *claim) abandon(done func(gone bool)) {
	c.quiet()
	c.queue.forget(c.nonce)
	s := lease.Suspect{Key: c.key, Rev: c.rev, Wanted: c.queue.wanted, LatePut: c.latePut, Done: func(settled bool) {
		c.gone()
		if done != nil {
			done(settled)
		}
	}}
	c.lease.Sweep(s)
	c.pass()
}

// giveUp ends a claim that failed with err before it held the lock, and returns
// err with the lock's name.
func (c *claim) giveUp(err error) error {
	if c.ctx != nil {
		c.end(err)
	}
	if c.rev == 0 && !c.latePut && !c.maybePut {
		c.quiet()
		c.leave()
		c.pass()
	} else {
		c.abandon(nil)
	}
	if errors.Is(err, errGone) {
		return lostBecause(c.name, err)
	}
	if errors.Is(err, ErrLost) || errors.Is(err, ErrLocked) {
		return err // names the lock
	}
	return fmt.Errorf("lock: %q: %w", c.name, err)
}
