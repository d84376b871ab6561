package sqlguard

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/internal/sqlmark"
)

// idleLimit is how long a holder that is paused inside Do can block the next one. Longer than a pause for garbage
// collection, shorter than the usual lease.
const idleLimit = 5 * time.Second

type postgres struct {
	sqlmark.Postgres
	name sqlmark.Table
}

func (p postgres) table() sqlmark.Table { return p.name }

func (p postgres) schema() []string { return p.Schema }

func (p postgres) lockMigration(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, p.Lock)
	return err
}

func (p postgres) raise(ctx context.Context, tx *sql.Tx, resource string, tok guard.Token, limited bool) error {
	var (
		mark  int64
		own   bool
		limit string
		err   error
	)
	if limited {
		err = tx.QueryRowContext(ctx, p.RaiseLimited, resource, int64(tok)).Scan(&mark, &own, &limit)
	} else {
		err = tx.QueryRowContext(ctx, p.Raise, resource, int64(tok)).Scan(&mark, &own)
	}
	switch {
	case err != nil:
		return err
	case mark != int64(tok): // a trigger or rule on the table
		return fmt.Errorf("the mark was written as %d and is %d; something changes the table of marks", int64(tok), mark)
	case !own:
		return errSavepoint
	}
	return nil
}

func (p postgres) markStatement() string { return p.Mark }

func (p postgres) hasIsolation(l sql.IsolationLevel) bool {
	switch l {
	case sql.LevelDefault, sql.LevelReadUncommitted, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSnapshot, sql.LevelSerializable:
		return true
	}
	return false
}

func (p postgres) retryable(err error) bool { return sqlmark.Retryable(err) }

func (p postgres) rolledBack(err error) bool { return sqlmark.RolledBack(err) }

func (p postgres) missingTable(err error) bool { return sqlmark.MissingTable(err) }
