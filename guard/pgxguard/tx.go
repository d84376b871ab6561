package pgxguard

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// rollbackLimit bounds the wait for the answer to ROLLBACK. It saves a connection, and nothing else depends on it.
const rollbackLimit = time.Second

// isNested tells whether tx is what pgx returns from a transaction's Begin. The type has no exported name.
func isNested(tx pgx.Tx) bool { return fmt.Sprintf("%T", tx) == "*pgx.dbSimulatedNestedTx" }

// isOutermost tells whether a rollback of tx is known to end the whole transaction.
func isOutermost(tx pgx.Tx) bool {
	_, pooled := tx.(*pgxpool.Tx)
	return pooled || fmt.Sprintf("%T", tx) == "*pgx.dbTx"
}

// giveUp makes sure because of err that nothing of tx is committed, nor anything of a transaction around it.
func giveUp(ctx context.Context, tx pgx.Tx, err error) {
	if refusal, ok := running.Load(tx.Conn()); ok && !hasEnded(tx) {
		refusal.(*atomic.Pointer[error]).CompareAndSwap(nil, &err)
	}
	if !isOutermost(tx) {
		if conn := tx.Conn(); conn != nil {
			closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackLimit)
			defer cancel()
			_ = conn.Close(closing) // closed it is in any case
		}
	}
	rollBack(ctx, tx)
}

// rollBack does so even if ctx has ended. Whether it works does not matter: what is not committed is not stored, and pgx
// closes a connection that cannot roll back.
func rollBack(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackLimit)
	defer cancel()
	_ = tx.Rollback(ctx)
}
