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

func sqlKind(name, driver string, d sqlguard.Dialect, dsn func(Places) string) Kind {
	return Kind{
		Name: name,
		Init: func(ctx context.Context, p Places, resource string) (err error) {
			db, err := sql.Open(driver, dsn(p))
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close()) }()
			return createTables(ctx, db, d, resource)
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
			return &sqlStore{marks[*sqlguard.Guard]{g, guarded}, db, d}, nil
		},
	}
}

type sqlStore struct {
	marks[*sqlguard.Guard]
	db      *sql.DB
	dialect sqlguard.Dialect
}

var dollar = regexp.MustCompile(`\$[0-9]`)

// placeholders are written as the database wants them.
func placeholders(d sqlguard.Dialect, query string) string {
	if d == sqlguard.MySQL {
		return dollar.ReplaceAllString(query, "?")
	}
	return query
}

func (s *sqlStore) sql(query string) string { return placeholders(s.dialect, query) }

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

func (s *sqlStore) Journal(ctx context.Context, resource string) ([]string, error) {
	rows, err := s.db.QueryContext(ctx, s.sql(sqlJournal), resource)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	ops := []string{}
	for rows.Next() {
		var op string
		if err := rows.Scan(&op); err != nil {
			return nil, err
		}
		ops = append(ops, op)
	}
	return ops, rows.Err()
}

func (s *sqlStore) Write(ctx context.Context, resource string, tok guard.Token, w Write) error {
	put := func(ctx context.Context, tx *sql.Tx) error {
		return sqlWrite(resource, w, func(query string, args ...any) error {
			_, err := tx.ExecContext(ctx, s.sql(query), args...)
			return err
		})
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
