package etcdguard

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/fencedlock/guard"
)

// Do applies the operations in one transaction that is guarded by tok. Once it has returned nil, they are all applied, and no
// write with a lower token is any more. Operations are those of clientv3: OpPut, OpDelete, OpGet, and OpTxn for what depends
// on a comparison; nil is returned as well when none of them changed anything. None at all are what [Guard.Seal] does.
//
// The error is one of these:
//   - a [*guard.StaleError] if the resource has seen a higher token;
//   - one that wraps [guard.ErrNoToken], or [guard.CheckResource]'s, without any I/O;
//   - one that wraps rpctypes.ErrTooManyOps and says the number, without any I/O, if the transaction is over Options.MaxOps;
//     one that wraps rpctypes.ErrEmptyKey, or another, if an operation is none or would change a mark;
//   - one that wraps [guard.ErrUnknown] if it was or may have been sent and nothing tells whether it was applied, such as
//     when ctx ended before the reply came: everything was applied, or nothing, or everything will be at any later time;
//   - any other, and etcd's own in it, such as rpctypes.ErrDuplicateKey, ErrRequestTooLarge, ErrLeaseNotFound or
//     ErrPermissionDenied: nothing was applied, and nothing will be.
//
// After ErrUnknown, call Seal with the same token: when it returns nil, nothing that Do has sent can be applied any more, so
// what is then read is final. When it says stale, neither can it.
//
// A reply that was lost is no reason for ErrUnknown as long as etcd answers: Do sends the same transaction again, at most
// Options.MaxRetries times, and etcd shows whether the first one was applied. What was applied is reported as such, also if
// others have written since, except when eight other Guards have written the same resource meanwhile, which is ErrUnknown.
// Do also sends again when another Guard wrote the resource first.
//
// A refusal proves little by itself: clientv3 sends a transaction again, unseen, when a sending ends with Canceled or
// DeadlineExceeded while ctx lives, and returns the last answer alone. So Do puts the mark again, with the token that it has,
// which stops what is still under way, and reads it. Where etcd does not let it, the refusal is wrapped beside ErrUnknown: on
// ErrNoSpace, when nothing can be put at all, and on ErrPermissionDenied when the right to the mark was withdrawn after
// this Guard had seen it.
//
// A resource that was never written gets its mark first, with tok, in a transaction of its own. It stays when the operations
// are then refused.
//
// ctx governs everything, the wait for earlier writes of this Guard to the resource included.
func (g *Guard) Do(ctx context.Context, resource string, tok guard.Token, ops ...clientv3.Op) error {
	_, err := g.write(ctx, resource, tok, ops)
	g.report(ctx, resource, tok, err)
	return err
}

// Txn is [Guard.Do] for operations whose answers are wanted: what OpGet found, the previous values, the branch that an OpTxn
// took. The response has one answer for each operation, in their order; Succeeded is true, since the guard let them in.
//
// Answers are lost with the reply that carried them. Txn then returns an error that wraps [guard.ErrUnknown] where Do
// returns nil: the transaction was applied, and what it found is not known.
func (g *Guard) Txn(ctx context.Context, resource string, tok guard.Token, ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
	resp, err := g.write(ctx, resource, tok, ops)
	if err == nil && resp == nil {
		err = fmt.Errorf("etcdguard: %w: the write to %q was applied, but the reply was lost, and what the operations answered with it", guard.ErrUnknown, resource)
	}
	g.report(ctx, resource, tok, err)
	return resp, err
}

// Seal implements [guard.Sealer]. It is Do without operations, with its errors. It moves the mark also when that has the
// token already, so what was sent before and has not been applied never will be. Calling it again is harmless, also after
// ErrUnknown.
func (g *Guard) Seal(ctx context.Context, resource string, tok guard.Token) error {
	return g.Do(ctx, resource, tok)
}

// write returns neither a response nor an error if the transaction was applied and its reply lost.
func (g *Guard) write(ctx context.Context, resource string, tok guard.Token, ops []clientv3.Op) (*clientv3.TxnResponse, error) {
	if err := g.made(); err != nil {
		return nil, err
	}
	if err := guard.Check(resource, tok, 0); err != nil {
		return nil, err
	}
	if err := g.checkOps(ops); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, because(ctx, fmt.Errorf("etcdguard: write to %q: the context had ended, nothing was sent", resource))
	}
	p, err := g.enter(ctx, resource)
	if err != nil {
		return nil, err
	}
	defer g.leave(p)
	a := &attempts{g: g, place: p, resource: resource, key: g.key(resource), tok: tok, ops: ops, by: last{g.instance, newNumber()}}
	return a.run(ctx)
}
