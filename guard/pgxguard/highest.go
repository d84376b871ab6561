package pgxguard

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencedlock/fencedlock/guard"
)

// Highest implements [guard.Sealer]. It reads what is committed, without waiting for transactions that are running. Use
// a connection to the primary: a replica may not know the latest mark. ctx governs the call.
func (g *Guard) Highest(ctx context.Context, resource string) (guard.Token, error) {
	if err := guard.CheckResource(resource); err != nil {
		return 0, err
	}
	var tok guard.Token
	err := g.retry(ctx, func() (err error) {
		tok, err = g.mark(ctx, g.pool, resource)
		return err
	})
	if err != nil {
		return 0, g.explain(ctx, fmt.Sprintf("mark of %q", resource), err)
	}
	return tok, nil
}

// queryer is a pool or a transaction.
type queryer interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// single is how a statement of the guard's own is executed outside of a transaction: in one message, since behind a pooler
// a second one may go to another session.
func single(c *pgxpool.Config) pgx.QueryExecMode {
	if c.ConnConfig.DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol {
		return pgx.QueryExecModeSimpleProtocol
	}
	return pgx.QueryExecModeExec
}

// mark returns 0 if there is no row. A mark that is there and cannot be one is an error, never 0.
func (g *Guard) mark(ctx context.Context, q queryer, resource string) (guard.Token, error) {
	return token(q.QueryRow(ctx, g.stmts.Mark, g.single, resource))
}

func token(row pgx.Row) (guard.Token, error) {
	var tok int64
	err := row.Scan(&tok)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return 0, nil
	case err != nil:
		return 0, err
	case tok <= 0:
		return 0, fmt.Errorf("the table of marks says %d, which no mark can be", tok)
	}
	return guard.Token(tok), nil
}
