// Package sqlguard guards data in an SQL database: inside the transaction that writes, the mark of the resource is
// compared with the writer's token and raised, and a writer with a lower token is refused. Works over database/sql.
//
//	g, err := sqlguard.New(db, sqlguard.Postgres, nil)
//	err = g.Migrate(ctx)
//	err = g.Do(ctx, resource, tok, func(ctx context.Context, tx *sql.Tx) error {
//		_, err := tx.ExecContext(ctx, "UPDATE account SET balance = balance - 10 WHERE id = $1", id)
//		return err
//	})
//
// What it guarantees: once a transaction that passed with a token has committed, no transaction with a lower token
// for the same resource passes, whatever pauses, retries or lost messages there are. The mark's row is locked from the
// check to the end of the transaction, so guarded transactions of one resource run one after the other.
//
// What it does not: writes that do not pass Check or Do are not guarded. Marks are as durable as the data beside them,
// and a failover to an asynchronous replica loses both. A token is no secret and gives no rights.
//
// The guard rests on nothing but a row of a table inside one transaction, so it works behind poolers that give each
// transaction another connection (PgBouncer's transaction mode), and in every isolation level. On MySQL and MariaDB alone, Do
// changes settings of the session for the time of its transaction, see [MySQL].
//
// Beside it: [Guard.Once] lets an operation have its effects once, [Guard.Marks] lists what was marked, and
// [Guard.Protect] makes PostgreSQL refuse the writes of those who forgot the guard.
//
// The owner of the tables calls Migrate, and a worker needs no more than these rights:
//
//	GRANT USAGE ON SCHEMA public TO worker; -- wherever they are; without it they seem to be missing
//	GRANT SELECT, INSERT, UPDATE ON fencedlock_marks TO worker;
//	GRANT SELECT, INSERT ON fencedlock_marks_once TO worker; -- for Once, and for Migrate, which looks for both tables
//	GRANT DELETE ON fencedlock_marks_once TO worker;         -- for PruneOnce, and for nothing else
//
// Highest and Marks need SELECT on fencedlock_marks. MariaDB needs the same rights, but no USAGE. What Protect needs is said
// there.
//
// Tested on PostgreSQL 15 with pgx, on MariaDB 10.11 with go-sql-driver/mysql, and on SQLite with modernc.org/sqlite.
// MySQL itself is not tested: its statements are those that MariaDB is tested with. Needs PostgreSQL 13, MariaDB 10.3,
// MySQL 8.0.16 or SQLite 3.35, and a driver whose PostgreSQL errors have a method SQLState, as those of pgx and lib/pq do.
package sqlguard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

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

	// Isolation is the isolation level of the transactions that Do begins; default is the database's own. PostgreSQL
	// and MySQL take all of their levels. SQLite has only sql.LevelSerializable.
	Isolation sql.IsolationLevel

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
	db   *sql.DB
	d    dialect
	opts Options
}

var _ guard.Sealer = (*Guard)(nil)

// New returns a guard for db, which speaks d. It does no I/O: a missing table is the first call's error. The caller
// closes db. nil Options are the defaults.
func New(db *sql.DB, d Dialect, o *Options) (*Guard, error) {
	if db == nil {
		return nil, errors.New("sqlguard: db is nil")
	}
	if o == nil {
		o = &Options{}
	}
	g := &Guard{db: db, opts: *o}
	table, err := sqlmark.ParseTable(o.Table)
	if err != nil {
		return nil, fmt.Errorf("sqlguard: Options.Table: %w", err)
	}
	if g.d, err = d.with(table); err != nil {
		return nil, err
	}
	if !g.d.hasIsolation(o.Isolation) {
		return nil, fmt.Errorf("sqlguard: Options.Isolation: %s does not have %q", d, o.Isolation)
	}
	switch {
	case o.MaxRetries < 0:
		return nil, fmt.Errorf("sqlguard: Options.MaxRetries: %d is negative; 0 is the default of %d", o.MaxRetries, sqlmark.DefaultRetries)
	case o.MaxRetries == 0:
		g.opts.MaxRetries = sqlmark.DefaultRetries
	}
	return g, nil
}

// made returns an error for a Guard that New did not make.
func (g *Guard) made() error {
	if g == nil || g.db == nil {
		return errors.New("sqlguard: this Guard was not made by New")
	}
	return nil
}

// report hands an operation's outcome to the user.
func (g *Guard) report(ctx context.Context, resource string, tok guard.Token, err error) {
	if g != nil && g.opts.OnOutcome != nil {
		g.opts.OnOutcome(ctx, resource, tok, err)
	}
}

// explain says what to do about errors of the guard's own statements, and adds why the context ended if it has: what
// drivers return then does not always say so.
func (g *Guard) explain(ctx context.Context, what string, err error) error {
	if g.made() == nil && g.d.missingTable(err) {
		return fmt.Errorf("sqlguard: %s: a table of the guard is missing; call Migrate, or run the statements of Schema: %w", what, err)
	}
	if g.made() == nil && g.d.forbidden(err) {
		return fmt.Errorf("sqlguard: %s: a right is missing; %s, on PostgreSQL also USAGE on their schema: %w", what, g.d.table().Rights(), err)
	}
	if g.made() == nil && sqlmark.Foreign(err) {
		return fmt.Errorf("sqlguard: %s: %s: %w", what, g.d.table().Foreign(), err)
	}
	return sqlmark.Because(ctx, fmt.Errorf("sqlguard: %s: %w", what, err))
}
