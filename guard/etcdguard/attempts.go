package etcdguard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/fencedlock/guard"
)

// attempts is one write, from its first sending to its outcome.
//
// The rule that keeps it from being applied twice: it starts from a state of the mark, its base, and goes on to a later
// base only when that tells that nothing sent on the former was applied. What was sent on a former base never will be.
type attempts struct {
	g             *Guard
	place         *place
	resource, key string
	tok           guard.Token
	ops           []clientv3.Op
	by            last
	base          state
}

func (a *attempts) run(ctx context.Context) (*clientv3.TxnResponse, error) {
	a.base = a.place.seen
	if !a.place.usable(a.tok) {
		s, err := a.g.read(ctx, a.resource)
		if err != nil {
			return nil, fmt.Errorf("%w; nothing was sent", err)
		}
		a.move(s)
	}
	if a.base.revision == 0 {
		if err := a.create(ctx); err != nil {
			return nil, err
		}
	}
	for try := 0; ; try++ {
		// Here nothing that was sent can have been applied: on a new base nothing was sent, and the same one is let in again.
		if err := guard.Check(a.resource, a.tok, max(a.base.token, a.place.highest)); err != nil {
			return nil, err
		}
		resp, err := a.send(ctx)
		switch {
		case err == nil && resp.Succeeded:
			return resp, nil
		case err == nil:
			now, err := a.other(resp)
			if err != nil {
				return nil, err
			}
			switch now.fate(a.base, a.tok, a.by) {
			case applied: // by an earlier sending, or by a repetition of the client's
				a.move(now)
				return nil, nil
			case missed:
				a.move(now)
			default:
				return nil, a.unknown(fmt.Errorf("the mark of %q was changed by many others meanwhile, or deleted, or etcd was restored", a.resource))
			}
			if try >= a.g.opts.MaxRetries {
				return nil, fmt.Errorf("etcdguard: write to %q: gave up after %d retries, since other writers always came first; nothing was applied", a.resource, try)
			}
			if pause(ctx, try) != nil {
				return nil, because(ctx, fmt.Errorf("etcdguard: write to %q: another writer came first, nothing was applied", a.resource))
			}
		case ctx.Err() != nil:
			return nil, because(ctx, a.unknown(err))
		case refusal(err):
			return nil, a.settle(ctx, err)
		default:
			if repeated(err) || try >= a.g.opts.MaxRetries {
				return nil, a.settle(ctx, err)
			}
			if pause(ctx, try) != nil {
				return nil, because(ctx, a.unknown(err))
			}
		}
	}
}

// send is one attempt. Sent again on the same base, it is the same transaction.
func (a *attempts) send(ctx context.Context) (*clientv3.TxnResponse, error) {
	next := state{mark: a.base.next(a.tok, a.by), created: a.base.created, version: a.base.version + 1}
	var err error
	if next.raw, err = next.encode(); err != nil {
		return nil, err
	}
	resp, err := a.g.kv.Txn(ctx).
		If(a.base.unchanged(a.key)...).
		Then(append(slices.Clip(a.ops), clientv3.OpPut(a.key, next.raw))...).
		Else(clientv3.OpGet(a.key)).
		Commit()
	if err != nil || !resp.Succeeded {
		return resp, err
	}
	next.revision = resp.Header.Revision
	if next.created == 0 {
		next.created = next.revision
	}
	a.move(next)
	if n := len(resp.Responses); n > 0 {
		resp.Responses = resp.Responses[:n-1] // without that of the mark's put
	}
	return resp, nil
}

// other reads the mark in the answer of the other branch.
func (a *attempts) other(resp *clientv3.TxnResponse) (state, error) {
	if len(resp.Responses) != 1 || resp.Responses[0].GetResponseRange() == nil {
		return state{}, a.unknown(errors.New("the answer does not hold the mark"))
	}
	s, err := parse(a.resource, a.key, resp.Responses[0].GetResponseRange().Kvs)
	if err != nil { // an earlier sending, though unseen, may have come before whatever made it so
		err = a.unknown(err)
	}
	return s, err
}

// move goes on to a state on which nothing was sent.
func (a *attempts) move(s state) {
	a.base = s
	a.place.learn(s)
}

func (a *attempts) refused(err error) error {
	advice := ""
	switch {
	case errors.Is(err, rpctypes.ErrTooManyOps):
		advice = "; set Options.MaxOps to etcd's --max-txn-ops"
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		advice = fmt.Sprintf("; the rights must cover the mark, key %q", a.key)
	}
	return fmt.Errorf("etcdguard: write to %q: nothing was applied: %w%s", a.resource, err, advice)
}

// unknown also forgets the mark: the next write begins with a read, whatever was wrong with what was seen.
func (a *attempts) unknown(err error) error {
	a.place.at = time.Time{}
	return fmt.Errorf("etcdguard: write to %q: %w: it was applied, or not, or will be; Seal, and then read: %w", a.resource, guard.ErrUnknown, err)
}
