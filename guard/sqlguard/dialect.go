package sqlguard

import (
	"context"
	"database/sql"
	"errors"
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
	// goes on or its process ends. The wait of the others ends with an error after the busy timeout, in Do and Seal after
	// that many times one more than Options.MaxRetries, or when the context ends, whichever is first. On Linux the error
	// names the process that has the lock. When SQLite waits under its busy timeout, drivers may see the end of the
	// context only after it, so keep it short.
	//
	// SQLite rolls the whole transaction back by itself when a statement that writes is interrupted, which the end of a
	// context of the statement's own does, when the disk is full or fails, when memory runs out, and for OR ROLLBACK and
	// RAISE(ROLLBACK): see https://www.sqlite.org/lang_transaction.html. The mark and the lock are gone then, database/sql
	// does not know, and what is sent through the same tx afterwards is stored at once and unguarded. So return at the
	// first statement that fails, and give statements no shorter context than the transaction's. Do finds out at the end,
	// and returns an error that wraps guard.ErrUnknown.
	SQLite

	// MySQL is MySQL, version 8.0.16 or later, and MariaDB, version 10.3 or later, with InnoDB. Errors must be those of
	// github.com/go-sql-driver/mysql or carry their number and text in fields of the same kinds. The driver must send
	// statements without parameters as they are, as that one does: MySQL may refuse to prepare SAVEPOINT (error 1295).
	//
	// Statements that define something (CREATE, ALTER, DROP, TRUNCATE) and some others, such as LOCK TABLES, end the
	// transaction with a COMMIT that nobody sees, and a deadlock (1213) rolls the whole of it back: a later holder gets
	// through, and what the earlier one does afterwards is guarded no more. So Do switches autocommit off for its
	// transaction, which keeps the rest from being stored, and sets a savepoint, "fencedlock", whose absence tells that the
	// transaction has ended: the error wraps guard.ErrUnknown then. Check does neither: keep such statements out of a
	// transaction of your own, before Check as well, which tells on MariaDB only, and return the error of a deadlock. A
	// statement that fails with a lock wait timeout (1205) leaves the transaction open: return its error, or roll back, so
	// that the rest is not committed without it. Where innodb_rollback_on_timeout is set, it does not, and Do cannot tell it
	// from a definition that commits and then times out: if fn returns such an error, it is one that wraps guard.ErrUnknown,
	// and fn is not run again.
	//
	// In Do on MariaDB a holder that is paused is cut off by idle_write_transaction_timeout, which Do sets to 5 s unless the
	// session has one of 1 to 5 s already. It takes that and autocommit back afterwards. Together with the savepoint that is
	// four round trips, two without the settings that the session has already. MySQL has no such limit: a paused holder blocks
	// its resource until it goes on, its connection breaks (net.ipv4.tcp_keepalive and wait_timeout of the server decide
	// when), or somebody kills it.
	MySQL
)

// String returns the dialect's name.
func (d Dialect) String() string {
	switch d {
	case Postgres:
		return "Postgres"
	case SQLite:
		return "SQLite"
	case MySQL:
		return "MySQL"
	}
	return fmt.Sprintf("Dialect(%d)", int(d))
}

func (d Dialect) with(t sqlmark.Table) (dialect, error) {
	switch d {
	case Postgres:
		return postgres{sqlmark.NewPostgres(t, sqlmark.IdleLimit), t}, nil
	case SQLite:
		return sqlite{t}, nil
	case MySQL:
		return newMySQL(t), nil
	}
	return nil, fmt.Errorf("sqlguard: %s is no dialect; use sqlguard.Postgres, sqlguard.SQLite or sqlguard.MySQL", d)
}

// errHigher is what a dialect says when the mark was not raised, which remains to be looked at.
var errHigher = errors.New("the mark is higher")

// dialect is what the databases do differently.
type dialect interface {
	table() sqlmark.Table
	schema() []string
	// lockMigration makes migrations run one after the other, until the transaction ends.
	lockMigration(ctx context.Context, tx *sql.Tx) error
	// raise compares and raises the mark under the row's lock. It returns errHigher if the mark seems to be higher. limited,
	// which Do asks for, bounds the transaction's idle time, if the database can, and prepares for ended; undo is the
	// statement, if any, that takes the session's settings back once the transaction has ended.
	raise(ctx context.Context, tx *sql.Tx, resource string, tok guard.Token, limited bool) (undo string, err error)
	// ended tells after fn, which failed with an error or did not (nil), whether the transaction of a limited raise had
	// ended before. An error means that it cannot be told, and that nothing more may be committed.
	ended(ctx context.Context, tx *sql.Tx, conn *sql.Conn, failed error) (bool, error)
	// markStatement reads the mark of its only parameter.
	markStatement() string
	// versionStatement reads the version, and fails if one of the tables is missing.
	versionStatement() string
	// marksStatement reads the marks after its first parameter, at most as many as its second says.
	marksStatement() string
	// insertOnce inserts the record of an operation, and tells whether it was not there. It waits for transactions that have
	// inserted the same and are still running.
	insertOnce(ctx context.Context, tx *sql.Tx, resource, operation string) (first bool, err error)
	// doneStatement counts the records of an operation, 0 or 1.
	doneStatement() string
	// pruneStatement deletes the records that are older than its parameter, in microseconds.
	pruneStatement() string
	hasIsolation(sql.IsolationLevel) bool
	// retryable tells whether a transaction that was rolled back for err may pass if it is run again.
	retryable(err error) bool
	// blocker says who is in the way, as far as it can tell, if err is that of a wait that was given up; else "".
	blocker(ctx context.Context, db *sql.DB, err error) string
	// rolledBack tells whether the error of a COMMIT proves that nothing was committed.
	rolledBack(err error) bool
	missingTable(err error) bool
	// forbidden tells whether a statement was refused for want of a right.
	forbidden(err error) bool
	// deaf tells whether the driver may wait for the answer to COMMIT beyond the end of the context.
	deaf(conn *sql.Conn) bool
	// leftTransaction tells from the error of a COMMIT or ROLLBACK that the transaction had ended before.
	leftTransaction(err error) bool
}
