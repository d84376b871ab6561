package sqlguard

import (
	"context"
	"database/sql"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/internal/sqlmark"
)

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

func (p postgres) raise(ctx context.Context, tx *sql.Tx, resource string, tok guard.Token, limited bool) (undo string, err error) {
	statement := p.Raise
	if limited {
		statement = p.RaiseLimited
	}
	res, err := tx.ExecContext(ctx, statement, resource, int64(tok))
	if err != nil {
		return "", sqlmark.Explain(err)
	}
	switch n, err := res.RowsAffected(); {
	case err != nil:
		return "", err
	case n == 0:
		return "", errHigher
	}
	return "", nil
}

func (p postgres) limitsSession() bool { return false }

func (p postgres) markStatement() string { return p.Mark }

func (p postgres) versionStatement() string { return p.Version }

func (p postgres) marksStatement() string { return p.Marks }

func (p postgres) insertOnce(ctx context.Context, tx *sql.Tx, resource, operation string) (bool, error) {
	return insertOrNothing(ctx, tx, p.Once, resource, operation)
}

func (p postgres) doneStatement() string { return p.Done }

func (p postgres) pruneStatement() string { return p.Prune }

func (p postgres) hasIsolation(l sql.IsolationLevel) bool {
	switch l {
	case sql.LevelDefault, sql.LevelReadUncommitted, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSnapshot, sql.LevelSerializable:
		return true
	}
	return false
}

func (p postgres) retryable(err error) bool { return sqlmark.Retryable(err) }

// blocker: the wait has no end of its own, and the server is where to ask.
func (p postgres) blocker(context.Context, *sql.DB, error) string { return "" }

func (p postgres) rolledBack(err error) bool { return sqlmark.RolledBack(err) }

func (p postgres) missingTable(err error) bool { return sqlmark.MissingTable(err) }

// leftTransaction: the server ends no transaction by itself that it lets go on; of what fn did it cannot tell.
func (p postgres) leftTransaction(error) bool { return false }
