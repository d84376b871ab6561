//go:build unix

package store

import (
	"context"
	"database/sql"
	"encoding/json"

	"github.com/fencedlock/fencedlock/guard/sqlguard"
	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
)

// A Doc is one row for the list, and one for each account. The journal has a row each time that a write was carried out,
// with nothing in it that would have to be unique but the number that the database gives.
var sqlSchema = []string{
	"CREATE TABLE IF NOT EXISTS lists (resource varchar(100) PRIMARY KEY, gen int NOT NULL, entries text NOT NULL)",
	"CREATE TABLE IF NOT EXISTS accounts (resource varchar(100) NOT NULL, id int NOT NULL, balance int NOT NULL, PRIMARY KEY (resource, id))",
}

var sqlJournalTable = map[sqlguard.Dialect]string{
	sqlguard.SQLite:   "CREATE TABLE IF NOT EXISTS journal (number integer PRIMARY KEY AUTOINCREMENT, resource text NOT NULL, op text NOT NULL)",
	sqlguard.Postgres: "CREATE TABLE IF NOT EXISTS journal (number bigserial PRIMARY KEY, resource text NOT NULL, op text NOT NULL)",
	sqlguard.MySQL:    "CREATE TABLE IF NOT EXISTS journal (number bigint AUTO_INCREMENT PRIMARY KEY, resource varchar(100) NOT NULL, op varchar(100) NOT NULL)",
}

const (
	sqlList    = "INSERT INTO lists VALUES ($1, 0, '[]')"
	sqlAccount = "INSERT INTO accounts VALUES ($1, $2, $3)"
	sqlRead    = "SELECT l.gen, l.entries, a.id, a.balance FROM lists l JOIN accounts a ON a.resource = l.resource WHERE l.resource = $1 ORDER BY a.id"
	sqlJournal = "SELECT op FROM journal WHERE resource = $1 ORDER BY number"

	sqlSetList = "UPDATE lists SET gen = $1, entries = $2 WHERE resource = $3" // first: its row is locked until the end
	sqlRecord  = "INSERT INTO journal (resource, op) VALUES ($1, $2)"
	sqlAdd     = "UPDATE accounts SET balance = balance + $1 WHERE resource = $2 AND id = $3"
)

// sqlWrite carries out a write in a transaction, of which exec is a statement. In the middle of it, Inside is called.
func sqlWrite(resource string, w Write, exec func(query string, args ...any) error) error {
	list, err := json.Marshal(w.Doc.List)
	if err != nil {
		return err
	}
	if err := exec(sqlSetList, w.Doc.Gen, string(list), resource); err != nil {
		return err
	}
	w.inside()
	if err := exec(sqlRecord, resource, w.op()); err != nil {
		return err
	}
	for _, id := range []int{w.Change.From, w.Change.To} {
		if err := exec(sqlAdd, w.added()[id], resource, id); err != nil {
			return err
		}
	}
	return nil
}

// createTables makes the tables, and the resource hold history.NewDoc.
func createTables(ctx context.Context, db *sql.DB, d sqlguard.Dialect, resource string) error {
	g, err := sqlguard.New(db, d, nil)
	if err != nil {
		return err
	}
	if err := g.Migrate(ctx); err != nil {
		return err
	}
	for _, stmt := range append(sqlSchema[:len(sqlSchema):len(sqlSchema)], sqlJournalTable[d]) {
		if _, err := db.ExecContext(ctx, stmt); err != nil {
			return err
		}
	}
	if _, err := db.ExecContext(ctx, placeholders(d, sqlList), resource); err != nil {
		return err
	}
	for id, balance := range history.NewDoc().Accounts {
		if _, err := db.ExecContext(ctx, placeholders(d, sqlAccount), resource, id, balance); err != nil {
			return err
		}
	}
	return nil
}
