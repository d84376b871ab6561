// Package bank has the form of what sqlc generates for database/sql: queries that run on a pool, or in a transaction.
package bank

import (
	"context"
	"database/sql"
)

// DBTX is a pool or a transaction.
type DBTX interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
	QueryRowContext(context.Context, string, ...any) *sql.Row
}

// New returns the queries on db.
func New(db DBTX) *Queries { return &Queries{db: db} }

// Queries are the queries of the bank.
type Queries struct{ db DBTX }

// WithTx returns the queries inside a transaction.
func (q *Queries) WithTx(tx *sql.Tx) *Queries { return &Queries{db: tx} }
