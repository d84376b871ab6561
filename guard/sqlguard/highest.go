package sqlguard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/fencedlock/fencedlock/guard"
)

// Highest implements [guard.Sealer]. It reads what is committed, without waiting for transactions that are running. Use
// a connection to the primary: a replica may not know the latest mark, and with autocommit off, as a
// data source name for MariaDB can ask for, a connection that is used again may show an old one. ctx governs the call.
func (g *Guard) Highest(ctx context.Context, resource string) (guard.Token, error) {
	if err := guard.CheckResource(resource); err != nil {
		return 0, err
	}
	var tok guard.Token
	err := g.retry(ctx, func() (err error) {
		tok, err = g.mark(ctx, g.db, resource)
		return err
	})
	if err != nil {
		return 0, g.explain(ctx, fmt.Sprintf("mark of %q", resource), err)
	}
	return tok, nil
}

// queryer is a pool or a transaction.
type queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// mark returns 0 if there is no row. A mark that is there and cannot be one is an error, never 0.
func (g *Guard) mark(ctx context.Context, q queryer, resource string) (guard.Token, error) {
	return token(q.QueryRowContext(ctx, g.d.markStatement(), resource))
}

func token(row *sql.Row) (guard.Token, error) {
	var tok int64
	err := row.Scan(&tok)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, nil
	case err != nil:
		return 0, err
	case tok <= 0:
		return 0, fmt.Errorf("the table of marks says %d, which no mark can be", tok)
	}
	return guard.Token(tok), nil
}
