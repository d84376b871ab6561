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

func (p postgres) forbidden(err error) bool { return sqlmark.Forbidden(err) }

// ended asks the driver, or else the server, which costs a round trip: COMMIT succeeds where there is no transaction.
func (p postgres) ended(ctx context.Context, tx *sql.Tx, conn *sql.Conn, _ error) (bool, error) {
	if status := pgxStatus(conn); status != 0 {
		return status == 'I', nil
	}
	_, err := tx.ExecContext(ctx, "SAVEPOINT "+savepoint)
	switch sqlmark.SQLState(err) {
	case "25P01": // no_active_sql_transaction
		return true, nil
	case "25P02": // in_failed_sql_transaction
		return false, nil
	}
	return false, err
}

// leftTransaction: ROLLBACK never fails for that, see ended.
func (p postgres) leftTransaction(error) bool { return false }

// deaf: pgx takes the context along.
func (p postgres) deaf(conn *sql.Conn) bool { return pgxStatus(conn) == 0 }
