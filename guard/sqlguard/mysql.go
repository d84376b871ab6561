package sqlguard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/internal/sqlmark"
)

// mysql holds the names of the tables in backquotes, which work in every mode of the server.
type mysql struct {
	name        sqlmark.Table
	marks, once string
}

func newMySQL(t sqlmark.Table) mysql {
	backquoted := func(t sqlmark.Table) string { return strings.ReplaceAll(string(t), `"`, "`") }
	return mysql{t, backquoted(t), backquoted(t.Once())}
}

func (m mysql) table() sqlmark.Table { return m.name }

// schema has names in VARBINARY: as texts, "Job" and "job " would be one key. The index on the age keeps PruneOnce from
// locking every row.
func (m mysql) schema() []string {
	return []string{
		fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s (
	resource VARBINARY(512) NOT NULL PRIMARY KEY,
	token BIGINT NOT NULL CHECK (token > 0),
	checks BIGINT NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC`, m.marks),
		fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s (
	resource VARBINARY(512) NOT NULL CHECK (resource <> ''),
	operation VARBINARY(512) NOT NULL CHECK (operation <> ''),
	created_at DATETIME(6) NOT NULL,
	PRIMARY KEY (resource, operation),
	KEY created_at (created_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC`, m.once),
		// The row of the empty name, which no resource can have, holds the version.
		fmt.Sprintf(`INSERT INTO %s (resource, token, checks) VALUES ('', %d, 0) ON DUPLICATE KEY UPDATE checks = 0`, m.marks, sqlmark.Version),
	}
}

// lockMigration does nothing: CREATE TABLE IF NOT EXISTS waits for others of its kind, and ends a transaction anyway.
func (m mysql) lockMigration(context.Context, *sql.Tx) error { return nil }

// raise writes the higher of both and reads it back under the row's lock. The number of affected rows would not do: it
// depends on what the row held, and on the client's flags.
func (m mysql) raise(ctx context.Context, tx *sql.Tx, resource string, tok guard.Token, limited bool) (undo string, err error) {
	// What MariaDB reads between /*M! and */ is a comment to MySQL and to older MariaDBs, which answer the insert with nothing.
	var mark, autocommit, idle, open int64
	err = tx.QueryRowContext(ctx, fmt.Sprintf(`INSERT INTO %s (resource, token, checks) VALUES (?, ?, 1)
ON DUPLICATE KEY UPDATE token = GREATEST(token, VALUES(token)), checks = checks + 1
/*M!100500 RETURNING token, @@SESSION.autocommit, @@SESSION.idle_write_transaction_timeout, @@in_transaction */`, m.marks),
		resource, int64(tok)).Scan(&mark, &autocommit, &idle, &open)
	if errors.Is(err, sql.ErrNoRows) {
		// MySQL has no such limit, which is -1 here, and does not tell whether a transaction is open.
		err = tx.QueryRowContext(ctx, fmt.Sprintf(`SELECT token, @@SESSION.autocommit,
-1 /*M!100300 + 1 + @@SESSION.idle_write_transaction_timeout */, 1 /*M!100300 * @@in_transaction */ FROM %s WHERE resource = ? FOR UPDATE`, m.marks),
			resource).Scan(&mark, &autocommit, &idle, &open)
	}
	switch {
	case err != nil:
		return "", err // no row is as bad as any
	case open == 0:
		return "", errors.New("no transaction is open: a statement before Check has ended it, as CREATE TABLE does; call Check first")
	case mark > int64(tok):
		return "", errHigher
	case mark < int64(tok):
		return "", fmt.Errorf("the mark was written as %d and is %d; something changes the table of marks", int64(tok), mark)
	case !limited:
		return "", nil
	}
	return confine(ctx, tx, autocommit, idle)
}

// confine sees to it that what fn sends after the transaction has ended, because of a deadlock that it passed over, or by a
// statement that commits, is not stored: without autocommit it is another transaction, which nobody commits. The savepoint
// tells the two apart. It also bounds the idle time. undo takes both settings back.
func confine(ctx context.Context, tx *sql.Tx, autocommit, idle int64) (undo string, err error) {
	var set, back []string
	if autocommit != 0 {
		set, back = append(set, "autocommit = 0"), append(back, "autocommit = 1")
	}
	if limit := int64(sqlmark.IdleLimit.Seconds()); idle == 0 || idle > limit {
		const timeout = "idle_write_transaction_timeout = %d"
		set, back = append(set, fmt.Sprintf(timeout, limit)), append(back, fmt.Sprintf(timeout, idle))
	}
	if len(set) > 0 {
		undo = "SET SESSION " + strings.Join(back, ", ")
		if _, err := tx.ExecContext(ctx, "SET SESSION "+strings.Join(set, ", ")); err != nil {
			return undo, err
		}
	}
	_, err = tx.ExecContext(ctx, "SAVEPOINT "+savepoint)
	return undo, err
}

// savepoint is set after the check in Do. It is gone when its transaction is.
const savepoint = "fencedlock"

// ended costs a round trip. A deadlock and a changed record roll the whole transaction back, so its end proves nothing. A lock
// wait timeout leaves it open, unless innodb_rollback_on_timeout is set or the statement is one that commits first.
func (m mysql) ended(ctx context.Context, tx *sql.Tx, _ *sql.Conn, failed error) (bool, error) {
	if code := mysqlCode(failed); code == mysqlDeadlock || code == mysqlRecordChanged {
		return false, nil
	}
	_, err := tx.ExecContext(ctx, "RELEASE SAVEPOINT "+savepoint)
	if mysqlCode(err) == mysqlNoSuchSavepoint {
		return true, nil
	}
	return false, err
}

func (m mysql) markStatement() string {
	return fmt.Sprintf(`SELECT token FROM %s WHERE resource = ?`, m.marks)
}

func (m mysql) versionStatement() string {
	return strings.ReplaceAll(m.name.Version(), `"`, "`")
}

func (m mysql) marksStatement() string {
	return fmt.Sprintf(`SELECT resource, token, checks FROM %s WHERE resource > ? ORDER BY resource LIMIT ?`, m.marks)
}

// insertOnce takes the error of a second record for the answer, since affected rows depend on the client's flags, and
// INSERT IGNORE ignores more than that. The statement alone is rolled back for it, not the transaction.
func (m mysql) insertOnce(ctx context.Context, tx *sql.Tx, resource, operation string) (bool, error) {
	_, err := tx.ExecContext(ctx, fmt.Sprintf(`INSERT INTO %s (resource, operation, created_at) VALUES (?, ?, UTC_TIMESTAMP(6))`, m.once), resource, operation)
	if mysqlCode(err) == mysqlDuplicate {
		return false, nil
	}
	return err == nil, err
}

// doneStatement locks, since a plain read would look at the transaction's snapshot.
func (m mysql) doneStatement() string {
	return fmt.Sprintf(`SELECT count(*) FROM %s WHERE resource = ? AND operation = ? LOCK IN SHARE MODE`, m.once)
}

func (m mysql) pruneStatement() string {
	// An age before the calendar begins would be NULL, and delete nothing either.
	return fmt.Sprintf(`DELETE FROM %s WHERE created_at < UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND`, m.once)
}

func (m mysql) hasIsolation(l sql.IsolationLevel) bool {
	switch l {
	case sql.LevelDefault, sql.LevelReadUncommitted, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable:
		return true
	}
	return false
}

// retryable: after a lock wait timeout the transaction is still open and its earlier statements would be committed, but
// every failed attempt is rolled back as a whole.
func (m mysql) retryable(err error) bool {
	switch mysqlCode(err) {
	case mysqlDeadlock, mysqlLockWaitTimeout, mysqlRecordChanged:
		return true
	}
	return false
}

// blocker: the server is where to ask.
func (m mysql) blocker(context.Context, *sql.DB, error) string { return "" }

// rolledBack: clusters that certify at COMMIT (Galera, group replication) refuse it as a deadlock.
func (m mysql) rolledBack(err error) bool { return mysqlCode(err) == mysqlDeadlock }

func (m mysql) missingTable(err error) bool { return mysqlCode(err) == mysqlNoSuchTable }

func (m mysql) forbidden(err error) bool {
	code := mysqlCode(err)
	return code == mysqlTableDenied || code == mysqlColumnDenied
}

// leftTransaction: ROLLBACK never fails for that, see ended.
func (m mysql) leftTransaction(error) bool { return false }

// deaf: go-sql-driver/mysql has no context there.
func (m mysql) deaf(*sql.Conn) bool { return true }
