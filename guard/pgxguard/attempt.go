package pgxguard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/internal/sqlmark"
)

// transact begins a transaction with the one statement that first queues, hands step what became of it, and commits. It
// does so again while the database reports conflicts.
func (g *Guard) transact(ctx context.Context, first func(*pgx.Batch), step func(tx pgx.Tx, n int64, err error) error) error {
	return g.retry(ctx, func() error { return g.attempt(ctx, first, step) })
}

func (g *Guard) retry(ctx context.Context, try func() error) error {
	if err := g.made(); err != nil {
		return err
	}
	return sqlmark.Retry(ctx, "pgxguard", g.opts.MaxRetries, sqlmark.Retryable, try)
}

// attempt is one transaction. Its error wraps ErrUnknown if something may have been committed.
func (g *Guard) attempt(ctx context.Context, first func(*pgx.Batch), step func(tx pgx.Tx, n int64, err error) error) error {
	conn, err := g.pool.Acquire(ctx)
	if err != nil {
		return sqlmark.Because(ctx, fmt.Errorf("pgxguard: begin: %w", err))
	}
	defer conn.Release() // closes it if it is still inside a transaction
	refusal := new(atomic.Pointer[error])
	running.Store(conn.Conn(), refusal)
	defer running.Delete(conn.Conn())
	b := &pgx.Batch{}
	b.BeginTx(pgx.TxOptions{IsoLevel: g.opts.Isolation})
	first(b)
	res := conn.SendBatch(ctx, b)
	tx := res.Tx()
	defer rollBack(ctx, tx) // for errors and panics alike
	_, err = res.Exec()     // BEGIN
	var tag pgconn.CommandTag
	if err == nil {
		tag, err = res.Exec()
	}
	if errClose := res.Close(); err == nil {
		err = errClose
	}
	if err := step(tx, tag.RowsAffected(), err); err != nil {
		return err
	}
	if refused := refusal.Load(); refused != nil {
		return *refused // fn has passed over it, and nothing of its transaction is stored
	}
	return commit(ctx, tx)
}

// judge says what to do with the transaction after fn, which returned errFn: nil is to commit it. COMMIT and ROLLBACK outside
// of a transaction succeed, with a warning, so it has to be looked at before.
func judge(ctx context.Context, tx pgx.Tx, errFn error) error {
	refusal, _ := running.Load(tx.Conn())
	switch {
	case refusal.(*atomic.Pointer[error]).Load() == nil && hasEnded(tx):
		if errFn == nil {
			errFn = pgx.ErrTxClosed
		}
		return fmt.Errorf("pgxguard: %w: fn ended the transaction, so what it did is stored or not; look before you go on: %w", guard.ErrUnknown, errFn)
	case errFn != nil:
		return sqlmark.Because(ctx, errFn)
	}
	return nil
}

func commit(ctx context.Context, tx pgx.Tx) error {
	if ctx.Err() != nil {
		return sqlmark.Because(ctx, errors.New("pgxguard: the context ended before COMMIT, the transaction was rolled back"))
	}
	err := tx.Commit(ctx)
	switch {
	case err == nil:
		return nil
	case sqlmark.RolledBack(err):
		return sqlmark.Because(ctx, fmt.Errorf("pgxguard: COMMIT was refused, nothing was stored: %w", err))
	case pgconn.SafeToRetry(err): // pgx's word for "nothing was sent"
		return sqlmark.Because(ctx, fmt.Errorf("pgxguard: COMMIT could not be sent, nothing was stored: %w", err))
	}
	return sqlmark.Because(ctx, fmt.Errorf("pgxguard: %w: COMMIT failed, so the transaction is stored or not; look before you go on: %w", guard.ErrUnknown, err))
}

// running has the connections of all attempts, and why Check or Once gave a transaction up. A Check in fn may be another
// Guard's. It tells a refusal, after which nothing is stored, from an fn that ends the transaction itself.
var running sync.Map // *pgx.Conn to *atomic.Pointer[error]

// hasEnded tells whether the connection is outside of a transaction, or was when it was closed.
func hasEnded(tx pgx.Tx) bool {
	conn := tx.Conn()
	return conn != nil && conn.PgConn().TxStatus() == 'I'
}
