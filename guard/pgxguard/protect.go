package pgxguard

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/internal/sqlmark"
)

// Protect makes PostgreSQL refuse every INSERT, UPDATE, DELETE, MERGE, COPY and TRUNCATE on table in a transaction that
// has not passed [Guard.Check] or [Guard.Do] for resource, or those of sqlguard, also in programs that know nothing of
// guards. The refusal (SQLSTATE UF001) says which resource a check is missing for. It is the same as sqlguard's
// Guard.Protect, whose documentation says what it needs, what it covers and what it does not.
//
// table is "table" or "schema.table", of ASCII letters, digits and underscores, quoted as it stands. It has one resource:
// another one is refused until [Guard.Unprotect]. Calling Protect again changes nothing. It waits for transactions that
// write to the table, in one transaction of its own, so that none is half protected. ctx governs the call.
//
// It is there against accidents. The table's owner can drop the triggers, and whoever may write the table of marks can
// touch a mark without Check.
func (g *Guard) Protect(ctx context.Context, table, resource string) error {
	if err := guard.CheckResource(resource); err != nil {
		return err
	}
	return g.protection(ctx, "protect", table, resource, func(p sqlmark.Postgres) string { return p.Protect })
}

// Unprotect ends what [Guard.Protect] did to table and all that inherits from it. It changes nothing on a table that
// is not protected by this guard's table of marks. It needs the ownership of the table, and waits for the transactions
// that use it. ctx governs the call.
func (g *Guard) Unprotect(ctx context.Context, table string) error {
	return g.protection(ctx, "unprotect", table, "", func(p sqlmark.Postgres) string { return p.Unprotect })
}

func (g *Guard) protection(ctx context.Context, verb, table, resource string, block func(sqlmark.Postgres) string) error {
	if err := g.made(); err != nil {
		return err
	}
	quoted, err := sqlmark.ParseUserTable(table)
	if err != nil {
		return fmt.Errorf("pgxguard: %s: %w", verb, err)
	}
	name := func(b *pgx.Batch) { b.Queue(g.stmts.ProtectWhat, string(quoted), resource) }
	return g.transact(ctx, name, func(tx pgx.Tx, _ int64, err error) error {
		if err == nil {
			_, err = tx.Exec(ctx, block(g.stmts))
		}
		switch {
		case sqlmark.Forbidden(err): // not a worker's rights are missing
			return fmt.Errorf("pgxguard: %s %q: %w", verb, table, err)
		case err != nil:
			return g.explain(ctx, fmt.Sprintf("%s %q", verb, table), err)
		}
		return nil
	})
}
