//go:build unix

package store

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/pgxguard"
	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
)

// pgxKind has its rows in the tables of postgres, and its mark beside those of sqlguard.
var pgxKind = Kind{
	Name: "pgx",
	Init: func(ctx context.Context, p Places, resource string) error { return postgres.Init(ctx, p, resource) },
	Open: func(ctx context.Context, p Places, guarded bool) (Store, error) {
		pool, err := pgxpool.New(ctx, p.Pgx)
		if err != nil {
			return nil, err
		}
		g, err := pgxguard.New(pool, nil)
		if err != nil {
			pool.Close()
			return nil, err
		}
		return &pgxStore{marks[*pgxguard.Guard]{g, guarded}, pool}, nil
	},
}

type pgxStore struct {
	marks[*pgxguard.Guard]
	pool *pgxpool.Pool
}

func (s *pgxStore) Read(ctx context.Context, resource string) (d history.Doc, err error) {
	rows, err := s.pool.Query(ctx, sqlRead, resource)
	if err != nil {
		return d, err
	}
	var list string
	var id, balance int
	_, err = pgx.ForEachRow(rows, []any{&d.Gen, &list, &id, &balance}, func() error {
		d.Accounts[id] = balance
		return nil
	})
	if err != nil {
		return d, err
	}
	return d, json.Unmarshal([]byte(list), &d.List)
}

func (s *pgxStore) Journal(ctx context.Context, resource string) ([]string, error) {
	rows, err := s.pool.Query(ctx, sqlJournal, resource)
	if err != nil {
		return nil, err
	}
	ops, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return append([]string{}, ops...), err
}

func (s *pgxStore) Write(ctx context.Context, resource string, tok guard.Token, w Write) error {
	put := func(ctx context.Context, tx pgx.Tx) error {
		return sqlWrite(resource, w, func(query string, args ...any) error {
			_, err := tx.Exec(ctx, query, args...)
			return err
		})
	}
	if s.guarded {
		return s.g.Do(ctx, resource, tok, put)
	}
	return unguarded(pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return put(ctx, tx) }))
}

func (s *pgxStore) Close() error {
	s.pool.Close()
	return nil
}
