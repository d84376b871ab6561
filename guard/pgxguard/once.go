package pgxguard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/internal/sqlmark"
)

// Once records in tx that the operation on resource is done, and tells whether it is the first to do so. If first is
// false, an earlier transaction has recorded the same and was committed: leave its effects out, and commit or roll back.
// The record is stored together with the effects, or not at all, so an operation that is run again, by this holder or
// by the next one, after ErrUnknown or after a crash, has its effects once. Records are shared with sqlguard's.
//
//	err := g.Do(ctx, resource, tok, func(ctx context.Context, tx pgx.Tx) error {
//		first, err := g.Once(ctx, tx, resource, "credit 4711")
//		if err != nil || !first {
//			return err
//		}
//		...
//	})
//
// Resource and operation are compared byte by byte. The operation is 1 to 512 bytes of valid UTF-8 without NUL, like the
// name of a resource, and names this one effect: the number of an order, the id of a message. [guard.IdempotencyKey]
// makes one for a third party from the same two.
//
// Call [Guard.Check] first, or use Once inside [Guard.Do]: then nobody else can record anything for the resource before
// tx has ended. Without Check it is still true that one transaction at most is first, but a second one waits for the
// first to end, two of them can wait for each other, and isolation levels above READ COMMITTED say 40001. Such conflicts
// are errors, to be met by running the whole transaction again; Do does that.
//
// When it returns an error, whichever, the transaction has ended, as with Check. A record stays until [Guard.PruneOnce].
// In a savepoint it shares the fate of what else is done there. ctx governs the statements.
func (g *Guard) Once(ctx context.Context, tx pgx.Tx, resource, operation string) (first bool, err error) {
	if tx == nil {
		return false, errors.New("pgxguard: Once needs a transaction, tx is nil")
	}
	first, err = g.once(ctx, tx, resource, operation)
	if err != nil {
		giveUp(ctx, tx, err)
		return false, err
	}
	return first, nil
}

func (g *Guard) once(ctx context.Context, tx pgx.Tx, resource, operation string) (bool, error) {
	if err := g.made(); err != nil {
		return false, err
	}
	if err := guard.CheckResource(resource); err != nil {
		return false, err
	}
	if err := sqlmark.CheckOperation(operation); err != nil {
		return false, fmt.Errorf("pgxguard: %w", err)
	}
	what := fmt.Sprintf("record of %q for %q", operation, resource)
	tag, err := tx.Exec(ctx, g.stmts.Once, resource, operation)
	if err != nil {
		return false, g.explain(ctx, what, err)
	}
	if tag.RowsAffected() > 0 {
		return true, nil
	}
	// Taking a row that something swallowed for a record would leave the effects out for good, so it has to be seen.
	var n int
	if err := tx.QueryRow(ctx, g.stmts.Done, resource, operation).Scan(&n); err != nil {
		return false, g.explain(ctx, what, err)
	}
	if n == 0 {
		return false, fmt.Errorf("pgxguard: %s: it was neither stored nor found; something changes the table of operations", what)
	}
	return false, nil
}

// PruneOnce deletes the records of [Guard.Once] that are older than the given time, and returns how many there were.
// Age is counted from the transaction that made the record, by the database's clock, in steps of a microsecond. An
// operation whose record is gone would be done again, so keep records longer than anything that could bring one back:
// retries, queues, backups that are played in again. Nothing is deleted unless you call it.
//
// It is one statement, which reads the whole table, and waits for nobody but transactions that look at the same old
// records. ctx governs it. Its error wraps [guard.ErrUnknown] if the records may be gone; calling it again is harmless.
func (g *Guard) PruneOnce(ctx context.Context, olderThan time.Duration) (deleted int64, err error) {
	if olderThan <= 0 {
		return 0, fmt.Errorf("pgxguard: PruneOnce: %v is no age; want how long records are to be kept at least", olderThan)
	}
	// One more, since the rest of the division is cut off: nothing younger may go.
	prune := func(b *pgx.Batch) { b.Queue(g.stmts.Prune, olderThan.Microseconds()+1) }
	err = g.transact(ctx, prune, func(_ pgx.Tx, n int64, err error) error {
		if err != nil {
			return g.explain(ctx, "prune", err)
		}
		deleted = n
		return nil
	})
	if err != nil {
		return 0, err
	}
	return deleted, nil
}
