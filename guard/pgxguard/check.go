package pgxguard

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fencedlock/fencedlock/guard"
)

// Check compares the mark of resource with tok inside your own transaction, and raises it: nil means that the token was
// accepted, and that no other guarded transaction of this resource passes before tx has ended. It is stored together
// with what tx writes, or not at all. Where you can, use [Guard.Do] instead, which does all of the following, and sends
// the check together with BEGIN.
//
//   - Call it first in the transaction. What was read before it may come from before an earlier holder's last write.
//   - Never call it inside a savepoint, which is what tx.Begin makes: to roll back to it would give up the mark and its
//     lock, and keep what is written afterwards. Check refuses that. A savepoint after Check is fine.
//   - When it returns an error, whichever, the transaction has ended and nothing of it can be committed: a refused
//     transaction would still hold the row's lock, and one that goes on unguarded must not be committed by mistake. tx is
//     rolled back. If it is neither pgx's nor pgxpool's own outermost transaction, but a nested one or a type of your
//     own, Check cannot know that this ends the whole, and closes the connection; a pool replaces it.
//   - Be ready to run the transaction again on the errors of Do's retries: in isolation levels above READ COMMITTED
//     they are how PostgreSQL says that another holder came first.
//   - An error of Commit means that the transaction may be stored, unless its code proves otherwise.
//   - A holder that is paused inside the transaction blocks the next one. Do bounds that; you can, by
//     SET LOCAL idle_in_transaction_session_timeout.
//
// The error is a [*guard.StaleError], one that wraps [guard.ErrNoToken], that of [guard.CheckResource], or another.
// ctx governs the statements of Check; a wait for the row ends with it.
func (g *Guard) Check(ctx context.Context, tx pgx.Tx, resource string, tok guard.Token) error {
	err := g.checkOrGiveUp(ctx, tx, resource, tok)
	g.report(ctx, resource, tok, err)
	return err
}

func (g *Guard) checkOrGiveUp(ctx context.Context, tx pgx.Tx, resource string, tok guard.Token) error {
	if tx == nil {
		return errors.New("pgxguard: Check needs a transaction, tx is nil")
	}
	err := g.made()
	if err == nil {
		err = guard.Check(resource, tok, 0)
	}
	if err == nil && isNested(tx) {
		err = fmt.Errorf("pgxguard: check of %q: it was called inside a savepoint (a nested Begin), which could give up the mark and keep the writes; call it first in the transaction", resource)
	}
	if err == nil {
		tag, errExec := tx.Exec(ctx, g.stmts.Raise, resource, int64(tok))
		err = g.raised(ctx, tx, resource, tok, tag.RowsAffected(), errExec)
	}
	if err != nil {
		giveUp(ctx, tx, err)
	}
	return err
}

// raised says what came of the statement that raises the mark, which affected n rows.
func (g *Guard) raised(ctx context.Context, tx pgx.Tx, resource string, tok guard.Token, n int64, err error) error {
	what := fmt.Sprintf("check of %q", resource)
	switch {
	case err != nil:
		return g.explain(ctx, what, err)
	case n > 0:
		return nil
	}
	// The mark should be higher. It counts once it was seen: a trigger or a policy on the table can swallow a row, too.
	highest, err := g.mark(ctx, tx, resource)
	if err != nil {
		return g.explain(ctx, what, err)
	}
	if err := guard.Check(resource, tok, highest); err != nil {
		return err
	}
	return fmt.Errorf("pgxguard: %s: the mark was not raised, though it is %d and the token is %d; something changes the table of marks", what, int64(highest), int64(tok))
}
