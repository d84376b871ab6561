package sqlguard

import (
	"context"
	"database/sql"
	"errors"

	"github.com/fencedlock/fencedlock/guard"
)

// Do runs fn in a transaction that is guarded by tok: it begins one, passes [Guard.Check], calls fn and commits. Once it
// has returned nil, everything fn did through tx is stored, and no transaction with a lower token passes any more.
//
// The error is one of these:
//   - a [*guard.StaleError] if the resource has seen a higher token: fn did not run;
//   - one that wraps [guard.ErrNoToken], or [guard.CheckResource]'s, without any I/O;
//   - fn's own, or that of a Check or Once that refused inside fn, also if fn passes over it: rolled back;
//   - one that wraps [guard.ErrUnknown] if COMMIT failed in a way that does not prove a rollback, such as a connection
//     lost before the reply: everything was stored, or nothing. Do never runs again then;
//   - one that wraps [guard.ErrUnknown], and fn's error if there was one, if the transaction had ended before fn returned,
//     against the rules below: some of what fn did may be stored. Do does not run again then either;
//   - any other: rolled back, nothing was stored.
//
// After ErrUnknown, let fn find out: have it store an id of the operation in the same transaction, and call Do again with
// the same token and an fn that first looks for the id. The mark's row is locked from Check on, so fn does not run
// before the earlier transaction has ended, and what it then reads is final. If that Do is refused as stale, this says
// nothing about the earlier write; but it has ended by then too, so look for the id with a plain query. Highest alone does
// not tell, since a mark does not say which of a holder's writes raised it.
//
// A transaction on several resources calls [Guard.Check] for the others at the beginning of fn, everywhere in the same
// order, so that two of them cannot wait for each other.
//
// fn may run several times, each time in a new transaction after the former was rolled back: Do runs again, at most
// Options.MaxRetries times, when the database reports a conflict (PostgreSQL's 40001 and 40P01, MySQL's 1213, 1205 and
// 1020, SQLite's SQLITE_BUSY, also inside an error that fn returns). So fn must have no other effect than that through tx.
// It uses tx and not the pool (on SQLite the pool would wait for fn's own transaction), closes the rows that it opens, since
// most drivers can send nothing before that, returns when a statement has failed, does not end the transaction, neither by tx
// nor by a statement, and does not keep tx. When fn panics, the transaction is rolled back, and the panic goes on.
//
// A transaction that ends under fn's hands, by a COMMIT of its own or by an error that it goes on after, is guarded no
// more. On MySQL and MariaDB, what fn sends afterwards is rolled back; elsewhere it is stored at once. Do finds out when fn
// returns, unless ctx has ended or the connection is lost by then, fn has begun another transaction by a statement, as COMMIT
// AND CHAIN does (on MySQL and MariaDB it finds that out, too), or fn returns a deadlock (1213) or a changed record (1020) on
// MySQL and MariaDB after a statement of its own had committed. Then it says nothing of what fn has committed itself.
//
// ctx governs everything, the waiting for the row included; fn gets it. It ends the transaction when it ends before
// COMMIT is sent. If the network is silent then, Do returns 2 s later at most, and its connection is of no use until the
// network or TCP says that it is broken. On PostgreSQL Do also sets idle_in_transaction_session_timeout to 5 s for its transaction, on MariaDB
// idle_write_transaction_timeout, unless the session has a stricter limit: a holder that is paused inside fn, or that does
// something else for so long between two statements, loses the transaction, and the next holder gets through. MySQL and
// SQLite have no such limit, see [MySQL] and [SQLite].
func (g *Guard) Do(ctx context.Context, resource string, tok guard.Token, fn func(ctx context.Context, tx *sql.Tx) error) (err error) {
	ended := false
	defer func() {
		if !ended {
			err = errors.New("sqlguard: fn did not return; its transaction was rolled back")
		}
		g.report(ctx, resource, tok, err)
	}()
	err = g.do(ctx, resource, tok, fn)
	ended = true
	return err
}

func (g *Guard) do(ctx context.Context, resource string, tok guard.Token, fn func(ctx context.Context, tx *sql.Tx) error) error {
	if err := guard.Check(resource, tok, 0); err != nil {
		return err
	}
	if fn == nil {
		return errors.New("sqlguard: Do: fn is nil")
	}
	return g.transact(ctx, func(t *attempt) error {
		var err error
		if t.undo, err = g.check(ctx, t.tx, resource, tok, true); err != nil {
			return err
		}
		errFn := fn(ctx, t.tx)
		return g.judge(ctx, t, errFn)
	})
}

// Seal implements [guard.Sealer]. It is Do without a function, with its errors; calling it again is harmless, also after
// ErrUnknown.
func (g *Guard) Seal(ctx context.Context, resource string, tok guard.Token) error {
	return g.Do(ctx, resource, tok, func(context.Context, *sql.Tx) error { return nil })
}
