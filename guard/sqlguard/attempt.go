package sqlguard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/internal/sqlmark"
)

// attempt is one transaction.
type attempt struct {
	d       dialect
	tx      *sql.Tx
	conn    *sql.Conn
	undo    string                // what is run in the session once the transaction has ended, however it did; "": nothing
	refusal atomic.Pointer[error] // why Check or Once rolled it back inside fn
}

// transact runs step in a transaction, and again while the database reports conflicts.
func (g *Guard) transact(ctx context.Context, step func(*attempt) error) error {
	return g.retry(ctx, func() error { return g.try(ctx, step) })
}

func (g *Guard) retry(ctx context.Context, try func() error) error {
	if err := g.made(); err != nil {
		return err
	}
	err := sqlmark.Retry(ctx, "sqlguard", g.opts.MaxRetries, g.d.retryable, try)
	if err != nil {
		if who := g.d.blocker(ctx, g.db, err); who != "" {
			err = fmt.Errorf("%w (%s)", err, who)
		}
	}
	return err
}

// try's error wraps ErrUnknown if something may have been committed.
func (g *Guard) try(ctx context.Context, step func(*attempt) error) error {
	tx, conn, err := g.begin(ctx)
	if err != nil {
		return sqlmark.Because(ctx, fmt.Errorf("sqlguard: begin: %w", err))
	}
	t := &attempt{d: g.d, tx: tx, conn: conn}
	running.Store(tx, t)
	committed, answered := false, true
	// For errors and panics alike. What is not committed is not stored, and a connection that cannot roll back is closed
	// by its driver.
	defer func() {
		running.Delete(tx)
		end := func() {
			_ = tx.Rollback()
			giveBack(ctx, conn, t.undo, committed)
		}
		switch {
		case committed:
			end()
		case answered:
			patiently(ctx, end)
		default:
			go end()
		}
	}()
	if err := step(t); err != nil {
		var ended error
		if answered = patiently(ctx, func() { ended = tx.Rollback() }); !answered {
			return err // no COMMIT was sent, and database/sql sends none after a rollback
		}
		if g.d.leftTransaction(ended) || errors.Is(ended, sql.ErrTxDone) && t.refusal.Load() == nil && ctx.Err() == nil {
			return outOfHand(err)
		}
		return err
	}
	if refused := t.refusal.Load(); refused != nil {
		return *refused // fn has passed over it, and nothing of its transaction is stored
	}
	// Commit would look at the context itself, but its error could not be told from one after COMMIT was sent.
	if ctx.Err() != nil {
		return sqlmark.Because(ctx, errors.New("sqlguard: the context ended before COMMIT, the transaction was rolled back"))
	}
	if g.d.deaf(conn) {
		answered = patiently(ctx, func() { err = tx.Commit() })
	} else {
		err = tx.Commit()
	}
	switch {
	case !answered:
		return sqlmark.Because(ctx, fmt.Errorf("sqlguard: %w: COMMIT was not answered, so the transaction is stored or not; look before you go on", guard.ErrUnknown))
	case err == nil:
		committed = true
		return nil
	case errors.Is(err, sql.ErrTxDone) && ctx.Err() == nil || g.d.leftTransaction(err):
		return outOfHand(err)
	case g.d.rolledBack(err):
		return sqlmark.Because(ctx, fmt.Errorf("sqlguard: COMMIT was refused, nothing was stored: %w", err))
	}
	return sqlmark.Because(ctx, fmt.Errorf("sqlguard: %w: COMMIT failed, so the transaction is stored or not; look before you go on: %w", guard.ErrUnknown, err))
}

// judge says what to do with the transaction after fn, which returned errFn: nil is to commit it.
func (g *Guard) judge(ctx context.Context, t *attempt, errFn error) error {
	var ended bool
	var err error
	if t.refusal.Load() == nil && ctx.Err() == nil {
		ended, err = g.d.ended(ctx, t.tx, t.conn, errFn)
	}
	switch {
	case ended && ctx.Err() == nil: // else database/sql may have rolled back for it
		if errFn == nil {
			errFn = sql.ErrTxDone
		}
		return outOfHand(errFn)
	case errFn != nil:
		return sqlmark.Because(ctx, errFn)
	case err != nil && !errors.Is(err, sql.ErrTxDone):
		return sqlmark.Because(ctx, fmt.Errorf("sqlguard: COMMIT was not sent, since the connection did not answer before; close the rows that fn opens, or else it was lost: %w", err))
	}
	return nil
}

// outOfHand is the error of a transaction that had ended before it was to be committed or rolled back.
func outOfHand(err error) error {
	return fmt.Errorf("sqlguard: %w: the transaction had ended before fn returned, by a COMMIT or ROLLBACK of fn's own, by a statement "+
		"that commits (CREATE TABLE on MySQL), or by an error that fn went on after; what fn did is stored or not, so look before you go on: %w",
		guard.ErrUnknown, err)
}

// running has the transactions of all attempts, since a Check inside fn may be another Guard's.
var running sync.Map // *sql.Tx to *attempt

// refuse rolls tx back because of err. A transaction of Do's learns of it, so that a refusal, after which nothing is stored,
// is not taken for an fn that has ended the transaction itself.
func refuse(ctx context.Context, tx *sql.Tx, err error) {
	t, ok := running.Load(tx)
	if !ok {
		patiently(ctx, func() { _ = tx.Rollback() }) // a connection that cannot roll back is closed by its driver
		return
	}
	a := t.(*attempt)
	ended, _ := a.d.ended(ctx, tx, a.conn, err) // where that cannot be told, the connection is gone, and nothing is stored
	var rollback error
	if answered := patiently(ctx, func() { rollback = tx.Rollback() }); !ended && (!answered || !errors.Is(rollback, sql.ErrTxDone) && !a.d.leftTransaction(rollback)) {
		a.refusal.CompareAndSwap(nil, &err)
	}
}
