package pgxguard

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/fencedlock/fencedlock/guard"
)

// Do runs fn in a transaction that is guarded by tok: it begins one and passes [Guard.Check] in the same message, calls
// fn and commits. Once it has returned nil, everything fn did through tx is stored, and no transaction with a lower
// token passes any more.
//
// The error is one of these:
//   - a [*guard.StaleError] if the resource has seen a higher token: fn did not run;
//   - one that wraps [guard.ErrNoToken], or [guard.CheckResource]'s, without any I/O;
//   - fn's own, or that of a Check or Once that refused inside fn, also if fn passes over it: rolled back;
//   - one that wraps [guard.ErrUnknown] if COMMIT failed in a way that does not prove a rollback, such as a connection
//     lost before the reply: everything was stored, or nothing. Do never runs again then;
//   - one that wraps [guard.ErrUnknown], and fn's error if there was one, if fn had ended the transaction itself, against
//     the rules below: what it did is stored or not. Do does not run again then either. An fn that begins another
//     transaction by a statement, as COMMIT AND CHAIN does, or whose own COMMIT gets no answer, is not found out;
//   - any other: rolled back, nothing was stored.
//
// After ErrUnknown, let fn find out: have it store an id of the operation in the same transaction ([Guard.Once] does),
// and call Do again with the same token and an fn that first looks for the id. The mark's row is locked from the check
// on, so fn does not run before the earlier transaction has ended, and what it then reads is final. If that Do is
// refused as stale, this says nothing about the earlier write; but it has ended by then too, so look for the id with a
// plain query. Highest alone does not tell, since a mark does not say which of a holder's writes raised it.
//
// A transaction on several resources calls [Guard.Check] for the others at the beginning of fn, everywhere in the same
// order, so that two of them cannot wait for each other.
//
// fn may run several times, each time in a new transaction after the former was rolled back: Do runs again, at most
// Options.MaxRetries times, when the database reports a conflict (40001 and 40P01, also inside an error that fn
// returns). So fn must have no other effect than that through tx. It uses tx, with batches, CopyFrom, large objects and
// nested transactions as it likes, and not the pool; it does not end the transaction, neither by tx nor by a statement,
// closes the rows and batches that it opens, and does not keep tx. When fn panics, the transaction is rolled back, and
// the panic goes on.
//
// ctx governs everything, the waiting for the row included; fn gets it. When it has ended before COMMIT is sent, the
// transaction is rolled back. Do also sets idle_in_transaction_session_timeout to 5 s for its transaction, unless the
// session has a stricter limit: a holder that is paused inside fn, or that does something else for so long between two
// statements, loses the transaction, and the next holder gets through.
func (g *Guard) Do(ctx context.Context, resource string, tok guard.Token, fn func(ctx context.Context, tx pgx.Tx) error) (err error) {
	ended := false
	defer func() {
		if !ended {
			err = errors.New("pgxguard: fn did not return; its transaction was rolled back")
		}
		g.report(ctx, resource, tok, err)
	}()
	err = g.do(ctx, resource, tok, fn)
	ended = true
	return err
}

func (g *Guard) do(ctx context.Context, resource string, tok guard.Token, fn func(ctx context.Context, tx pgx.Tx) error) error {
	if err := guard.Check(resource, tok, 0); err != nil {
		return err
	}
	if fn == nil {
		return errors.New("pgxguard: Do: fn is nil")
	}
	raise := func(b *pgx.Batch) { b.Queue(g.stmts.RaiseLimited, resource, int64(tok)) }
	return g.transact(ctx, raise, func(tx pgx.Tx, n int64, err error) error {
		if err := g.raised(ctx, tx, resource, tok, n, err); err != nil {
			return err
		}
		return judge(ctx, tx, fn(ctx, tx))
	})
}

// Seal implements [guard.Sealer]. It is Do without a function, with its errors; calling it again is harmless, also after
// ErrUnknown.
func (g *Guard) Seal(ctx context.Context, resource string, tok guard.Token) error {
	return g.Do(ctx, resource, tok, func(context.Context, pgx.Tx) error { return nil })
}
