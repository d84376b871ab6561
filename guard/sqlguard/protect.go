package sqlguard

import (
	"context"
	"fmt"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/internal/sqlmark"
)

// Protect makes PostgreSQL refuse every INSERT, UPDATE, DELETE, MERGE, COPY and TRUNCATE on table in a transaction that
// has not passed [Guard.Check] or [Guard.Do] for resource, also those of programs that know nothing of guards. The
// refusal (SQLSTATE UF001) says which resource a check is missing for. Other dialects give an error.
//
// table is "table" or "schema.table", of ASCII letters, digits and underscores, quoted as it stands. It has one resource:
// another one is refused until [Guard.Unprotect]. Calling Protect again changes nothing, and takes no lock on the table
// when there is nothing to change. Otherwise it waits for transactions that write to the table, in one transaction of its
// own, so that none is half protected. It needs the ownership of the table, and the rights to read the table of marks and
// to create a function beside it; those who write need no right more than before.
//
// The triggers ask whether the row of the resource's mark was written by this very transaction, and trust no setting of
// the session: session_replication_role does not switch them off, a check for another resource or inside a savepoint that
// was rolled back does not count. Partitions and tables that inherit are protected with their parent. A partition that is
// attached later is, too, but for TRUNCATE on the partition alone: call Protect again after attaching one. So is a table
// that inherits later, once Protect was called again. A partition that was created later and is detached loses its triggers.
// A protected table that has a parent itself, or is a partition, is not written through that either. One that gets a parent
// later, by ATTACH PARTITION or INHERIT, is unguarded against statements that name the parent until Protect is called again.
//
// A statement costs one look at the mark's row; on a partitioned table, on one that has a parent outside of what is
// protected, and in replication, each row costs one. Restoring
// data is refused like everything else: call Unprotect there. So is what a logical replication subscription writes: its
// worker stops with the error and tries again, until Unprotect.
//
// It is there against accidents. The table's owner can drop the triggers, the owner of their function
// (the name of the table of marks and "_protect") can replace it, and whoever may write the table of marks can touch a mark
// without Check. Protect takes that function only as it makes it, and only if it belongs to the caller, to the owner of the
// table of marks, or to a superuser.
func (g *Guard) Protect(ctx context.Context, table, resource string) error {
	if err := guard.CheckResource(resource); err != nil {
		return err
	}
	return g.protection(ctx, "protect", table, resource, func(p sqlmark.Postgres) string { return p.Protect })
}

// Unprotect ends what [Guard.Protect] did to table and all that inherits from it. It changes nothing on a table that
// is not protected by this guard's table of marks. It needs the ownership of the table, waits for the transactions that
// use it, and is for PostgreSQL alone.
func (g *Guard) Unprotect(ctx context.Context, table string) error {
	return g.protection(ctx, "unprotect", table, "", func(p sqlmark.Postgres) string { return p.Unprotect })
}

func (g *Guard) protection(ctx context.Context, verb, table, resource string, block func(sqlmark.Postgres) string) error {
	if err := g.made(); err != nil {
		return err
	}
	p, ok := g.d.(postgres)
	if !ok {
		return fmt.Errorf("sqlguard: %s %q: only PostgreSQL has this; elsewhere let every writer pass Check", verb, table)
	}
	quoted, err := sqlmark.ParseUserTable(table)
	if err != nil {
		return fmt.Errorf("sqlguard: %s: %w", verb, err)
	}
	return g.transact(ctx, func(t *attempt) error {
		if _, err := t.tx.ExecContext(ctx, p.ProtectWhat, string(quoted), resource); err != nil {
			return g.explain(ctx, verb, err)
		}
		switch _, err := t.tx.ExecContext(ctx, block(p.Postgres)); {
		case p.forbidden(err): // not a worker's rights are missing
			return fmt.Errorf("sqlguard: %s %q: %w", verb, table, err)
		case err != nil:
			return g.explain(ctx, fmt.Sprintf("%s %q", verb, table), err)
		}
		return nil
	})
}
