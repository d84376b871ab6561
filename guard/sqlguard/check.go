package sqlguard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/fencedlock/fencedlock/guard"
)

// Check compares the mark of resource with tok inside your own transaction, and raises it: nil means that the token was
// accepted, and that no other guarded transaction of this resource passes before tx has ended. It is stored together
// with what tx writes, or not at all. Where you can, use [Guard.Do] instead, which does all of the following.
//
//   - Call it first in the transaction. What was read before it may come from before an earlier holder's last write.
//   - Never call it inside a savepoint: ROLLBACK TO would give up the mark, and on PostgreSQL its lock, and keep what is
//     written afterwards. PostgreSQL can tell, and Check then fails; the others cannot. A savepoint after Check is fine.
//   - When it returns an error, whichever, it has rolled tx back: a refused transaction would still hold the row's lock,
//     and one that goes on unguarded must not be committed by mistake. Statements and Commit then give sql.ErrTxDone.
//   - Be ready to run the transaction again on the errors of Do's retries: in isolation levels above READ COMMITTED
//     they are how databases say that another holder came first.
//   - An error of Commit means that the transaction may be stored, unless its code proves otherwise.
//   - A holder that is paused inside the transaction blocks the next one. Do bounds that on PostgreSQL and
//     MariaDB; you can, by SET LOCAL idle_in_transaction_session_timeout or SET idle_write_transaction_timeout.
//
// The error is a [*guard.StaleError], one that wraps [guard.ErrNoToken], that of [guard.CheckResource], or another.
// ctx governs the statements of Check; a wait for the row ends with it.
func (g *Guard) Check(ctx context.Context, tx *sql.Tx, resource string, tok guard.Token) error {
	err := g.checkOrRollBack(ctx, tx, resource, tok)
	g.report(ctx, resource, tok, err)
	return err
}

func (g *Guard) checkOrRollBack(ctx context.Context, tx *sql.Tx, resource string, tok guard.Token) error {
	if tx == nil {
		return errors.New("sqlguard: Check needs a transaction, tx is nil")
	}
	err := g.made()
	if err == nil {
		err = guard.Check(resource, tok, 0)
	}
	if err == nil {
		_, err = g.check(ctx, tx, resource, tok, false)
	}
	if err != nil {
		refuse(ctx, tx, err)
	}
	return err
}

// check leaves the rollback to the caller, and the statement that is to be run after it.
func (g *Guard) check(ctx context.Context, tx *sql.Tx, resource string, tok guard.Token, limited bool) (undo string, err error) {
	undo, err = g.d.raise(ctx, tx, resource, tok, limited)
	if err == nil {
		return undo, nil
	}
	what := fmt.Sprintf("check of %q", resource)
	if !errors.Is(err, errHigher) {
		return undo, g.explain(ctx, what, err)
	}
	// It counts once it was seen: a trigger or a policy on the table can swallow a row, too.
	highest, err := g.mark(ctx, tx, resource)
	if err != nil {
		return undo, g.explain(ctx, what, err)
	}
	if err := guard.Check(resource, tok, highest); err != nil {
		return undo, err
	}
	return undo, fmt.Errorf("sqlguard: %s: the mark was not raised, though it is %d and the token is %d; something changes the table of marks", what, int64(highest), int64(tok))
}
