package sqlguard

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/internal/sqlmark"
)

// Dialect says which database a Guard talks to. The zero Dialect is none.
type Dialect int

// The dialects.
const (
	// Postgres is PostgreSQL, version 13 or later.
	Postgres Dialect = iota + 1

	// SQLite is SQLite, version 3.35 or later. Give each connection a busy timeout, and let transactions begin
	// immediate (with modernc.org/sqlite: ?_txlock=immediate&_pragma=busy_timeout(5000)). Without the first, writers
	// that meet get SQLITE_BUSY at once, and Do has only its retries. Without the second, a transaction of your own that
	// reads before Check cannot wait for its turn at all; one that begins with Check can.
	//
	// SQLite bounds no transaction's time: a holder that is paused inside one blocks all writers of the file until it
	// goes on or its process ends. Bound your own wait with the context.
	SQLite
)

// String returns the dialect's name.
func (d Dialect) String() string {
	switch d {
	case Postgres:
		return "Postgres"
	case SQLite:
		return "SQLite"
	}
	return fmt.Sprintf("Dialect(%d)", int(d))
}

func (d Dialect) with(t sqlmark.Table) (dialect, error) {
	switch d {
	case Postgres:
		return postgres{sqlmark.NewPostgres(t, sqlmark.IdleLimit), t}, nil
	case SQLite:
		return sqlite{t}, nil
	}
	return nil, fmt.Errorf("sqlguard: %s is no dialect; use sqlguard.Postgres or sqlguard.SQLite", d)
}

// dialect is what the databases do differently.
type dialect interface {
	table() sqlmark.Table
	schema() []string
	// lockMigration makes migrations run one after the other, until the transaction ends.
	lockMigration(ctx context.Context, tx *sql.Tx) error
	// raise compares and raises the mark under the row's lock. It returns sql.ErrNoRows if the mark is higher. limited
	// asks for a bound on the transaction's idle time, if the database has one.
	raise(ctx context.Context, tx *sql.Tx, resource string, tok guard.Token, limited bool) error
	// markStatement reads the mark of its only parameter.
	markStatement() string
	// versionStatement reads the version, and fails if one of the tables is missing.
	versionStatement() string
	// marksStatement reads the marks after its first parameter, at most as many as its second says.
	marksStatement() string
	// once inserts the record of an operation, and tells whether it was not there. It waits for transactions that have
	// inserted the same and are still running.
	once(ctx context.Context, tx *sql.Tx, resource, operation string) (first bool, err error)
	// doneStatement counts the records of an operation, 0 or 1.
	doneStatement() string
	// pruneStatement deletes the records that are older than its parameter, in microseconds.
	pruneStatement() string
	hasIsolation(sql.IsolationLevel) bool
	// retryable tells whether a transaction that was rolled back for err may pass if it is run again.
	retryable(err error) bool
	// rolledBack tells whether the error of a COMMIT proves that nothing was committed.
	rolledBack(err error) bool
	missingTable(err error) bool
}
