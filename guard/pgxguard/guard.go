// Package pgxguard is sqlguard for programs that use pgx itself: inside the transaction that writes, the mark of the
// resource is compared with the writer's token and raised, and a writer with a lower token is refused.
//
//	g, err := pgxguard.New(pool, nil)
//	err = g.Migrate(ctx)
//	err = g.Do(ctx, resource, tok, func(ctx context.Context, tx pgx.Tx) error {
//		_, err := tx.Exec(ctx, "UPDATE account SET balance = balance - 10 WHERE id = $1", id)
//		return err
//	})
//
// Table, statements and guarantees are those of package sqlguard on PostgreSQL, so programs with either guard the same
// resources together: once a transaction that passed with a token has committed, no transaction with a lower token for
// the same resource passes, whatever pauses, retries or lost messages there are. The mark's row is locked from the check
// to the end of the transaction, so guarded transactions of one resource run one after the other.
//
// What it does not guarantee: writes that do not pass Check or Do are not guarded, unless Protect is on their table. Marks
// are as durable as the data beside them, and a failover to an asynchronous replica loses both. A token is no secret and
// gives no rights.
//
// It uses rows of a table inside one transaction, no state of a session and no prepared statement of its own, so it works
// behind poolers that give each transaction another connection, in whatever QueryExecMode the pool is configured with.
// Behind PgBouncer's transaction mode before version 1.21 that must not be pgx's default, which prepares statements: use
// pgx.QueryExecModeExec or QueryExecModeCacheDescribe. It works in every isolation level.
//
// The owner of the tables calls Migrate, and a worker needs no more than these rights:
//
//	GRANT USAGE ON SCHEMA public TO worker; -- wherever they are; without it they seem to be missing
//	GRANT SELECT, INSERT, UPDATE ON fencedlock_marks TO worker;
//	GRANT SELECT, INSERT ON fencedlock_marks_once TO worker; -- for Once, and for Migrate, which looks for both tables
//	GRANT DELETE ON fencedlock_marks_once TO worker;         -- for PruneOnce, and for nothing else
//
// Highest and Marks need SELECT on fencedlock_marks. What Protect needs is said at sqlguard's.
//
// Tested on PostgreSQL 15, and through PgBouncer 1.18. Needs PostgreSQL 13 or later.
package pgxguard

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/internal/sqlmark"
)

// Options are the choices of a Guard. The zero value of each field is its default.
type Options struct {
	// Table is the name of the table of marks, "table" or "schema.table"; default "fencedlock_marks". Both parts are of ASCII
	// letters, digits and underscores, up to 48 characters for the table and up to 63 for the schema, and are quoted as they
	// stand, so upper case stays upper case. Name the schema where the search path may differ between programs: two tables are two sets
	// of marks. The table of [Guard.Once] has the same name with "_once" behind it.
	Table string

	// Isolation is the isolation level of the transactions that Do begins; default is the database's own.
	Isolation pgx.TxIsoLevel

	// MaxRetries bounds how often Do and Seal run again after a conflict with another transaction; default 20, with
	// random pauses of up to 100 ms between them. It cannot be negative.
	MaxRetries int

	// OnOutcome is called once at the end of each Do, Seal and Check with its arguments and the error it is about to
	// return; for Check, nil means that the token was accepted, and the transaction goes on. It must return quickly:
	// the caller waits. nil: nothing is called.
	OnOutcome func(ctx context.Context, resource string, tok guard.Token, err error)
}

// Guard guards the data of one database by one table of marks. It is safe for concurrent use. [New] makes one; the methods
// of a zero or nil Guard return an error.
type Guard struct {
	pool   *pgxpool.Pool
	table  sqlmark.Table
	stmts  sqlmark.Postgres
	opts   Options
	single pgx.QueryExecMode
}

var _ guard.Sealer = (*Guard)(nil)

// New returns a guard for the database of pool. It does no I/O: a missing table is the first call's error. The caller
// closes pool. nil Options are the defaults.
func New(pool *pgxpool.Pool, o *Options) (*Guard, error) {
	if pool == nil {
		return nil, errors.New("pgxguard: pool is nil")
	}
	if o == nil {
		o = &Options{}
	}
	table, err := sqlmark.ParseTable(o.Table)
	if err != nil {
		return nil, fmt.Errorf("pgxguard: Options.Table: %w", err)
	}
	switch o.Isolation {
	case "", pgx.Serializable, pgx.RepeatableRead, pgx.ReadCommitted, pgx.ReadUncommitted:
	default:
		return nil, fmt.Errorf("pgxguard: Options.Isolation: %.80q is none of pgx's levels", string(o.Isolation))
	}
	g := &Guard{pool: pool, table: table, stmts: sqlmark.NewPostgres(table, sqlmark.IdleLimit), opts: *o, single: single(pool.Config())}
	switch {
	case o.MaxRetries < 0:
		return nil, fmt.Errorf("pgxguard: Options.MaxRetries: %d is negative; 0 is the default of %d", o.MaxRetries, sqlmark.DefaultRetries)
	case o.MaxRetries == 0:
		g.opts.MaxRetries = sqlmark.DefaultRetries
	}
	return g, nil
}

// made returns an error for a Guard that New did not make.
func (g *Guard) made() error {
	if g == nil || g.pool == nil {
		return errors.New("pgxguard: this Guard was not made by New")
	}
	return nil
}

// report hands an operation's outcome to the user.
func (g *Guard) report(ctx context.Context, resource string, tok guard.Token, err error) {
	if g != nil && g.opts.OnOutcome != nil {
		g.opts.OnOutcome(ctx, resource, tok, err)
	}
}

// explain says what to do about errors of the guard's own statements.
func (g *Guard) explain(ctx context.Context, what string, err error) error {
	if sqlmark.MissingTable(err) {
		return fmt.Errorf("pgxguard: %s: a table of the guard is missing; call Migrate, or run the statements of Schema: %w", what, err)
	}
	if sqlmark.Forbidden(err) {
		return fmt.Errorf("pgxguard: %s: a right is missing; %s, and USAGE on their schema: %w", what, g.table.Rights(), err)
	}
	if sqlmark.Foreign(err) {
		return fmt.Errorf("pgxguard: %s: %s: %w", what, g.table.Foreign(), err)
	}
	return sqlmark.Because(ctx, fmt.Errorf("pgxguard: %s: %w", what, sqlmark.Explain(err)))
}
