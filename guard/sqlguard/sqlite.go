package sqlguard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/internal/sqlmark"
)

type sqlite struct{ name sqlmark.Table }

func (s sqlite) table() sqlmark.Table { return s.name }

// schema has one tree for each table instead of two, so that a check reads and writes fewer pages.
func (s sqlite) schema() []string {
	return []string{
		fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s (
	resource TEXT NOT NULL PRIMARY KEY COLLATE BINARY CHECK (typeof(resource) = 'text'),
	token INTEGER NOT NULL CHECK (typeof(token) = 'integer' AND token > 0),
	checks INTEGER NOT NULL
) WITHOUT ROWID`, string(s.name)),
		fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s (
	resource TEXT NOT NULL COLLATE BINARY CHECK (typeof(resource) = 'text' AND resource <> ''),
	operation TEXT NOT NULL COLLATE BINARY CHECK (typeof(operation) = 'text' AND operation <> ''),
	created_at INTEGER NOT NULL,
	PRIMARY KEY (resource, operation)
) WITHOUT ROWID`, string(s.name.Once())),
		// The row of the empty name, which no resource can have, holds the version.
		fmt.Sprintf(`INSERT INTO %s (resource, token, checks) VALUES ('', %d, 0) ON CONFLICT (resource) DO NOTHING`, string(s.name), sqlmark.Version),
	}
}

// lockMigration does nothing: writers of a file exclude each other.
func (s sqlite) lockMigration(context.Context, *sql.Tx) error { return nil }

// raise is a write, so a transaction that begins with it takes the file's write lock before it reads anything: it waits
// for its turn under the busy timeout even if it began deferred, and never works on an old snapshot.
func (s sqlite) raise(ctx context.Context, tx *sql.Tx, resource string, tok guard.Token, _ bool) (undo string, err error) {
	var mark int64
	err = tx.QueryRowContext(ctx, fmt.Sprintf(`INSERT INTO %s (resource, token, checks) VALUES (?, ?, 1)
	ON CONFLICT (resource) DO UPDATE SET token = excluded.token, checks = checks + 1 WHERE token <= excluded.token AND token > 0
	RETURNING token`, string(s.name)), resource, int64(tok)).Scan(&mark)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		err = errHigher
	case err == nil && mark != int64(tok):
		err = fmt.Errorf("the mark was written as %d and is %d; something changes the table of marks", int64(tok), mark)
	}
	return "", err
}

// ended: COMMIT and ROLLBACK fail where there is no transaction, see leftTransaction.
func (s sqlite) ended(context.Context, *sql.Tx, *sql.Conn, error) (bool, error) { return false, nil }

func (s sqlite) markStatement() string {
	return fmt.Sprintf(`SELECT token FROM %s WHERE resource = ?`, string(s.name))
}

func (s sqlite) versionStatement() string { return s.name.Version() }

func (s sqlite) marksStatement() string {
	return fmt.Sprintf(`SELECT resource, token, checks FROM %s WHERE resource > ? ORDER BY resource LIMIT ?`, string(s.name))
}

// sqliteNow is in milliseconds since 1970; subsecond times by other functions are younger than SQLite 3.35.
const sqliteNow = `CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)`

func (s sqlite) insertOnce(ctx context.Context, tx *sql.Tx, resource, operation string) (bool, error) {
	return insertOrNothing(ctx, tx, fmt.Sprintf(`INSERT INTO %s (resource, operation, created_at) VALUES (?, ?, %s)
	ON CONFLICT (resource, operation) DO NOTHING`, string(s.name.Once()), sqliteNow), resource, operation)
}

func (s sqlite) doneStatement() string {
	return fmt.Sprintf(`SELECT count(*) FROM %s WHERE resource = ? AND operation = ?`, string(s.name.Once()))
}

func (s sqlite) pruneStatement() string {
	return fmt.Sprintf(`DELETE FROM %s WHERE created_at < %s - ? / 1000.0`, string(s.name.Once()), sqliteNow)
}

func (s sqlite) hasIsolation(l sql.IsolationLevel) bool {
	return l == sql.LevelDefault || l == sql.LevelSerializable
}

const (
	sqliteBusy              = 5        // SQLITE_BUSY; the low byte of SQLITE_BUSY_SNAPSHOT and its other kinds
	sqliteLockedSharedCache = 6 | 1<<8 // SQLITE_LOCKED_SHAREDCACHE: busy, between connections that share a cache
)

// retryable takes the code from modernc.org/sqlite's errors. Those of other drivers (mattn/go-sqlite3, ncruces) have no
// such method, but all carry SQLite's own text.
func (s sqlite) retryable(err error) bool {
	if err == nil {
		return false
	}
	var e interface {
		error
		Code() int
	}
	if errors.As(err, &e) && strings.Contains(e.Error(), "is locked") && (e.Code()&0xff == sqliteBusy || e.Code() == sqliteLockedSharedCache) {
		return true
	}
	return strings.Contains(err.Error(), "database is locked")
}

// lookLimit bounds the look for the blocker, which needs a connection but no lock.
const lookLimit = time.Second

func (s sqlite) blocker(ctx context.Context, db *sql.DB, err error) string {
	if !s.retryable(err) && ctx.Err() == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookLimit)
	defer cancel()
	schema, _, named := strings.Cut(strings.ReplaceAll(string(s.name), `"`, ""), ".")
	if !named {
		schema = "main"
	}
	var file string
	if err := db.QueryRowContext(ctx, `SELECT file FROM pragma_database_list WHERE name = ?`, schema).Scan(&file); err != nil || file == "" {
		return ""
	}
	// In WAL mode the locks are on the file of shared memory.
	if who := writers(file, file+"-shm"); who != "" {
		return fmt.Sprintf("%s is locked by %s", file, who)
	}
	return ""
}

// rolledBack: a COMMIT that is busy has committed nothing, and drivers roll back then. Others, such as an error of the
// disk, leave open what the next one to open the file will find.
func (s sqlite) rolledBack(err error) bool { return s.retryable(err) }

func (s sqlite) missingTable(err error) bool {
	return err != nil && strings.Contains(err.Error(), "no such table")
}

// forbidden: it has no users.
func (s sqlite) forbidden(error) bool { return false }

func (s sqlite) leftTransaction(err error) bool {
	return err != nil && strings.Contains(err.Error(), "no transaction is active")
}

// deaf: nothing is far away.
func (s sqlite) deaf(*sql.Conn) bool { return false }
