//go:build unix

package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"regexp"

	_ "github.com/go-sql-driver/mysql" // MariaDB
	_ "github.com/jackc/pgx/v5/stdlib" // PostgreSQL
	_ "modernc.org/sqlite"             // SQLite

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/sqlguard"
	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
)

var (
	sqlite   = sqlKind("sqlite", "sqlite", sqlguard.SQLite, func(p Places) string { return p.SQLite })
	postgres = sqlKind("postgres", "pgx", sqlguard.Postgres, func(p Places) string { return p.Postgres })
	mariadb  = sqlKind("mariadb", "mysql", sqlguard.MySQL, func(p Places) string { return p.MariaDB })
)

// A Doc is one row for the list, and one for each account.
var sqlSchema = []string{
	"CREATE TABLE IF NOT EXISTS lists (resource varchar(100) PRIMARY KEY, gen int NOT NULL, entries text NOT NULL)",
	"CREATE TABLE IF NOT EXISTS accounts (resource varchar(100) NOT NULL, id int NOT NULL, balance int NOT NULL, PRIMARY KEY (resource, id))",
}

const (
	sqlList      = "INSERT INTO lists VALUES ($1, 0, '[]')"
	sqlAccount   = "INSERT INTO accounts VALUES ($1, $2, $3)"
	sqlRead      = "SELECT l.gen, l.entries, a.id, a.balance FROM lists l JOIN accounts a ON a.resource = l.resource WHERE l.resource = $1 ORDER BY a.id"
	sqlSetList   = "UPDATE lists SET gen = $1, entries = $2 WHERE resource = $3"
	sqlSetAmount = "UPDATE accounts SET balance = $1 WHERE resource = $2 AND id = $3"
)

func sqlKind(name, driver string, d sqlguard.Dialect, dsn func(Places) string) Kind {
	return Kind{
		Name: name,
		Init: func(ctx context.Context, p Places, resource string) (err error) {
			db, err := sql.Open(driver, dsn(p))
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close()) }()
			s := &sqlStore{db: db, dialect: d}
			return s.init(ctx, resource)
		},
		Open: func(ctx context.Context, p Places, guarded bool) (Store, error) {
			db, err := sql.Open(driver, dsn(p))
			if err != nil {
				return nil, err
			}
			g, err := sqlguard.New(db, d, nil)
			if err != nil {
				return nil, errors.Join(err, db.Close())
			}
			return &sqlStore{db, d, g, guarded}, nil
		},
	}
}

type sqlStore struct {
	db      *sql.DB
	dialect sqlguard.Dialect
	g       *sqlguard.Guard
	guarded bool
}

var dollar = regexp.MustCompile(`\$[0-9]`)

func (s *sqlStore) sql(query string) string {
	if s.dialect == sqlguard.MySQL {
		return dollar.ReplaceAllString(query, "?")
	}
	return query
}

func (s *sqlStore) init(ctx context.Context, resource string) error {
	g, err := sqlguard.New(s.db, s.dialect, nil)
	if err != nil {
		return err
	}
	if err := g.Migrate(ctx); err != nil {
		return err
	}
	for _, stmt := range sqlSchema {
		if _, err := s.db.ExecContext(ctx, stmt); err != nil {
			return err
		}
	}
	if _, err := s.db.ExecContext(ctx, s.sql(sqlList), resource); err != nil {
		return err
	}
	for id, balance := range history.NewDoc().Accounts {
		if _, err := s.db.ExecContext(ctx, s.sql(sqlAccount), resource, id, balance); err != nil {
			return err
		}
	}
	return nil
}

func (s *sqlStore) Seal(ctx context.Context, resource string, tok guard.Token) error {
	if !s.guarded {
		return nil
	}
	return s.g.Seal(ctx, resource, tok)
}

func (s *sqlStore) Highest(ctx context.Context, resource string) (guard.Token, error) {
	return s.g.Highest(ctx, resource)
}

func (s *sqlStore) Read(ctx context.Context, resource string) (d history.Doc, err error) {
	rows, err := s.db.QueryContext(ctx, s.sql(sqlRead), resource)
	if err != nil {
		return d, err
	}
	defer rows.Close()
	var list string
	for rows.Next() {
		var id, balance int
		if err := rows.Scan(&d.Gen, &list, &id, &balance); err != nil {
			return d, err
		}
		d.Accounts[id] = balance
	}
	if err := rows.Err(); err != nil {
		return d, err
	}
	return d, json.Unmarshal([]byte(list), &d.List)
}

func (s *sqlStore) Write(ctx context.Context, resource string, tok guard.Token, w Write) error {
	list, err := json.Marshal(w.Doc.List)
	if err != nil {
		return err
	}
	put := func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, s.sql(sqlSetList), w.Doc.Gen, string(list), resource); err != nil {
			return err
		}
		w.Inside()
		for _, id := range []int{w.Change.From, w.Change.To} {
			if _, err := tx.ExecContext(ctx, s.sql(sqlSetAmount), w.Doc.Accounts[id], resource, id); err != nil {
				return err
			}
		}
		return nil
	}
	if s.guarded {
		return s.g.Do(ctx, resource, tok, put)
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return unguarded(err)
	}
	if err := put(ctx, tx); err != nil {
		return unguarded(errors.Join(err, tx.Rollback()))
	}
	return unguarded(tx.Commit())
}

func (s *sqlStore) Close() error { return s.db.Close() }
