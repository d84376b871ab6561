package sqlmark

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Postgres has the statements for PostgreSQL 13 and later.
type Postgres struct {
	// Schema are the statements that create the tables, to be run in one transaction under Lock.
	Schema []string
	// Version reads the version; no row is a table without one. It fails if one of the tables is missing, or a column that a
	// check needs.
	Version string

	// Raise raises the mark of resource $1 to token $2. It affects one row if the token is accepted. None means that the mark is higher, and is to be
	// looked at; the row's lock is kept all the same until the transaction ends. Its result is of no use, so that it can
	// be executed instead of queried, which costs database/sql less; what must not be fails it, see [Explain].
	Raise string
	// RaiseLimited is Raise that also bounds how long the transaction may sit idle, in the same round trip.
	RaiseLimited string
	// Mark reads the mark of resource $1.
	Mark string
	// Marks reads resource, token and checks of the marks after resource $1, at most $2 of them, in the order of their
	// names' bytes. After "" it begins at the first one and passes over the version.
	Marks string
	// Once records that operation $2 of resource $1 is done. It affects one row if it was not; a transaction that
	// records the same waits for this one to end. None means that it was, and that is to be looked at.
	Once string
	// Done counts the records of operation $2 of resource $1: 0 or 1.
	Done string
	// Prune deletes the records that are older than $1 microseconds by the database's clock.
	Prune string
	// Lock makes one migration at a time run; it ends with the transaction.
	Lock string

	// ProtectWhat names the quoted table $1 and the resource $2 for the rest of the transaction. Protect and Unprotect
	// follow it there. They are blocks without parameters, since PostgreSQL takes none in such statements.
	ProtectWhat string
	// Protect creates the triggers that refuse writes to the table in transactions that have not raised the mark.
	Protect string
	// Unprotect drops them.
	Unprotect string
}

const migrationLock = `pg_advisory_xact_lock(7308324465822425211)` // any number, but the same in all releases

// NewPostgres returns the statements for a table. idle bounds a transaction's idle time in RaiseLimited, unless the
// session has a stricter limit already.
func NewPostgres(t Table, idle time.Duration) Postgres {
	raise := func(more string) string {
		// The upsert takes the row's lock in both branches, so the comparison sees the latest mark in every isolation
		// level, or fails with 40001. A row that is not of the transaction itself was written inside a savepoint. The
		// cast to int is how plain SQL raises an error.
		return fmt.Sprintf(`INSERT INTO %s AS m (resource, token, checks, txid) VALUES ($1, $2, 1, pg_current_xact_id())
ON CONFLICT (resource) DO UPDATE SET token = EXCLUDED.token, checks = m.checks + 1, txid = EXCLUDED.txid
WHERE m.token <= EXCLUDED.token AND m.token > 0
RETURNING (CASE WHEN m.token <> $2 THEN '%s' WHEN m.xmin <> pg_current_xact_id()::xid THEN '%s' ELSE '0' END)::int%s`,
			string(t), markChanged, inSavepoint, more)
	}
	limit := fmt.Sprintf(`, set_config('idle_in_transaction_session_timeout', CASE
	WHEN current_setting('idle_in_transaction_session_timeout')::interval BETWEEN interval '1 ms' AND interval '%[1]d ms'
	THEN current_setting('idle_in_transaction_session_timeout') ELSE '%[1]dms' END, true)`, idle.Milliseconds())
	return Postgres{
		Schema: []string{
			// It has no CHECK: PostgreSQL reads those anew for each statement, a fifth of what a check costs it. What they could
			// refuse, no guard writes, and each refuses when it reads it.
			fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s (
	resource text COLLATE "C" NOT NULL PRIMARY KEY,
	token bigint NOT NULL,
	checks bigint NOT NULL,
	txid xid8
)`, string(t)),
			fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s (
	resource text COLLATE "C" NOT NULL CHECK (octet_length(resource) BETWEEN 1 AND 512),
	operation text COLLATE "C" NOT NULL CHECK (octet_length(operation) BETWEEN 1 AND 512),
	created_at timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (resource, operation)
)`, string(t.Once())),
			// The row of the empty name, which no resource can have, holds the version. It comes last: where it is, all is.
			fmt.Sprintf(`INSERT INTO %s (resource, token, checks) VALUES ('', %d, 0) ON CONFLICT (resource) DO NOTHING`, string(t), Version),
		},
		Version:      t.Version() + ` AND txid IS NULL`, // no check writes to the version's row
		Raise:        raise(""),
		RaiseLimited: raise(limit),
		Mark:         fmt.Sprintf(`SELECT token FROM %s WHERE resource = $1`, string(t)),
		Marks:        fmt.Sprintf(`SELECT resource, token, checks FROM %s WHERE resource > $1 ORDER BY resource LIMIT $2`, string(t)),
		Once:         fmt.Sprintf(`INSERT INTO %s (resource, operation) VALUES ($1, $2) ON CONFLICT (resource, operation) DO NOTHING`, string(t.Once())),
		Done:         fmt.Sprintf(`SELECT count(*) FROM %s WHERE resource = $1 AND operation = $2`, string(t.Once())),
		Prune:        fmt.Sprintf(`DELETE FROM %s WHERE created_at < clock_timestamp() - $1::bigint * interval '1 microsecond'`, string(t.Once())),
		Lock:         `SELECT ` + migrationLock,
		ProtectWhat:  protectWhat,
		Protect:      protect(t),
		Unprotect:    unprotect(t),
	}
}

// What Raise says inside the error that it raises.
const (
	inSavepoint = "fencedlock: check inside a savepoint"
	markChanged = "fencedlock: mark changed"
)

// Explain returns what is behind an error of Raise, or err itself.
func Explain(err error) error {
	switch {
	case SQLState(err) != "22P02": // invalid_text_representation
	case strings.Contains(err.Error(), inSavepoint):
		return fmt.Errorf("it was called inside a savepoint, which could give up the mark and keep the writes; call it first in the transaction: %w", err)
	case strings.Contains(err.Error(), markChanged):
		return fmt.Errorf("the mark was not stored as it was written; something changes the table of marks: %w", err)
	}
	return err
}

// SQLState returns the five characters of PostgreSQL's error code, "" if err carries none. Drivers' errors have a
// method for it, among them those of pgx and lib/pq.
func SQLState(err error) string {
	var e interface{ SQLState() string }
	if errors.As(err, &e) {
		return e.SQLState()
	}
	return ""
}

// Retryable tells whether PostgreSQL has rolled the transaction back for a conflict that another try may not meet:
// serialization_failure and deadlock_detected.
func Retryable(err error) bool {
	s := SQLState(err)
	return s == "40001" || s == "40P01"
}

// RolledBack tells whether the error of a COMMIT proves that nothing was committed. Everything that it does not know
// proves nothing: after a lost connection, a shutdown or a pooler's error, the commit may well have happened.
func RolledBack(err error) bool {
	switch s := SQLState(err); {
	case s == "40003": // statement_completion_unknown
		return false
	case strings.HasPrefix(s, "40"), // transaction_rollback
		strings.HasPrefix(s, "23"), // a deferred constraint
		s == "P0001",               // a deferred trigger that raised
		s == "25P03":               // ended before, by idle_in_transaction_session_timeout
		return true
	case s != "":
		return false
	}
	// A COMMIT of a transaction with a failed statement is answered with ROLLBACK, which is no error of the server's.
	// pgx and lib/pq make one of it, without a code.
	for ; err != nil; err = errors.Unwrap(err) {
		m := strings.ToLower(err.Error())
		if m == "commit unexpectedly resulted in rollback" || m == "pq: could not complete operation in a failed transaction" {
			return true
		}
	}
	return false
}

// MissingTable tells whether a statement failed because its table is not there: undefined_table, invalid_schema_name.
func MissingTable(err error) bool {
	s := SQLState(err)
	return s == "42P01" || s == "3F000"
}

// Foreign tells whether a statement failed because a table has other columns: undefined_column.
func Foreign(err error) bool { return SQLState(err) == "42703" }

// Foreign says what to do about such a table.
func (t Table) Foreign() string {
	return fmt.Sprintf("table %[1]s lacks a column; if it is a table of marks that was made before they had all of theirs, run ALTER TABLE %[1]s ADD COLUMN IF NOT EXISTS txid xid8, "+
		"and if it is none, choose another name", string(t))
}
