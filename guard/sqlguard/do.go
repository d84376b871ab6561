package sqlguard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/internal/sqlmark"
)

// Do runs fn in a transaction that is guarded by tok: it begins one, passes [Guard.Check], calls fn and commits. Once it
// has returned nil, everything fn did through tx is stored, and no transaction with a lower token passes any more.
//
// The error is one of these:
//   - a [*guard.StaleError] if the resource has seen a higher token: fn did not run;
//   - one that wraps [guard.ErrNoToken], or [guard.CheckResource]'s, without any I/O;
//   - fn's own: rolled back, but for what an fn that ended the transaction itself, against the rules below, had committed
//     (where fn did so by a statement, on PostgreSQL and MySQL, Do cannot tell, and may return nil as well);
//   - one that wraps [guard.ErrUnknown] if COMMIT failed in a way that does not prove a rollback, such as a connection
//     lost before the reply: everything was stored, or nothing. Do never runs again then;
//   - one that wraps [guard.ErrUnknown] if the database had ended the transaction before fn returned, see [SQLite];
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
// It uses tx and not the pool (on SQLite the pool would wait for fn's own transaction), returns when a statement has
// failed, does not end the transaction, neither by tx nor by a statement, and does not keep tx. When fn panics, the
// transaction is rolled back, and the panic goes on.
//
// ctx governs everything, the waiting for the row included; fn gets it. It ends the transaction when it ends before
// COMMIT is sent. On PostgreSQL Do also sets idle_in_transaction_session_timeout to 5 s for its transaction, on MariaDB
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
	return g.transact(ctx, func(tx *sql.Tx, undo *string) error {
		var err error
		if *undo, err = g.check(ctx, tx, resource, tok, true); err != nil {
			return err
		}
		if err := fn(ctx, tx); err != nil {
			return sqlmark.Because(ctx, err)
		}
		return nil
	})
}

// Seal implements [guard.Sealer]. It is Do without a function, with its errors; calling it again is harmless, also after
// ErrUnknown.
func (g *Guard) Seal(ctx context.Context, resource string, tok guard.Token) error {
	return g.Do(ctx, resource, tok, func(context.Context, *sql.Tx) error { return nil })
}

// transact runs step in a transaction, and again while the database reports conflicts. step can name a statement that is
// run in the session once the transaction has ended, however it did.
func (g *Guard) transact(ctx context.Context, step func(tx *sql.Tx, undo *string) error) error {
	return g.retry(ctx, func() error { return g.attempt(ctx, step) })
}

func (g *Guard) retry(ctx context.Context, try func() error) error {
	err := sqlmark.Retry(ctx, "sqlguard", g.opts.MaxRetries, g.d.retryable, try)
	if err != nil {
		if who := g.d.blocker(ctx, g.db, err); who != "" {
			err = fmt.Errorf("%w (%s)", err, who)
		}
	}
	return err
}

// attempt is one transaction. Its error wraps ErrUnknown if it may have been committed.
func (g *Guard) attempt(ctx context.Context, step func(tx *sql.Tx, undo *string) error) error {
	tx, conn, err := g.begin(ctx)
	if err != nil {
		return sqlmark.Because(ctx, fmt.Errorf("sqlguard: begin: %w", err))
	}
	// For errors and panics alike. What is not committed is not stored, and a connection that cannot roll back is closed
	// by its driver.
	var undo string
	defer func() {
		_ = tx.Rollback()
		giveBack(ctx, conn, undo)
	}()
	if err := step(tx, &undo); err != nil {
		if g.d.leftTransaction(tx.Rollback()) {
			return fmt.Errorf("sqlguard: %w: the database had ended the transaction by itself before fn returned, so statements after "+
				"that were not guarded and may be stored: %w", guard.ErrUnknown, err)
		}
		return err
	}
	// Commit would look at the context itself, but its error could not be told from one after COMMIT was sent.
	if ctx.Err() != nil {
		return sqlmark.Because(ctx, errors.New("sqlguard: the context ended before COMMIT, the transaction was rolled back"))
	}
	err = tx.Commit()
	switch {
	case err == nil:
		return nil
	case g.d.rolledBack(err):
		return sqlmark.Because(ctx, fmt.Errorf("sqlguard: COMMIT was refused, nothing was stored: %w", err))
	}
	return sqlmark.Because(ctx, fmt.Errorf("sqlguard: %w: COMMIT failed, so the transaction is stored or not; look before you go on: %w", guard.ErrUnknown, err))
}
