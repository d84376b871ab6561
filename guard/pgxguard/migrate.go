package pgxguard

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fencedlock/fencedlock/guard/internal/sqlmark"
)

// Schema returns the statements that Migrate runs, each ended by a semicolon, for those who keep their own migrations.
// They change nothing when they are run again, and are those of sqlguard.
func (g *Guard) Schema() string {
	if g.made() != nil {
		return ""
	}
	return strings.Join(g.stmts.Schema, ";\n") + ";\n"
}

// Migrate creates the tables of marks and of operations unless they are there. It may be called at every start, by
// several processes at once. It needs the right to create tables only when there is something to create, else to read
// both. It returns an error if they are of a version that this release does not know. ctx governs the call.
func (g *Guard) Migrate(ctx context.Context) error {
	if err := g.made(); err != nil {
		return err
	}
	var version int64
	err := g.retry(ctx, func() (err error) {
		version, err = g.version(ctx, g.pool)
		return err
	})
	switch {
	case err != nil && !sqlmark.MissingTable(err):
		return g.explain(ctx, "migrate", err)
	case err == nil && version != 0:
		return g.checkVersion(version)
	}
	lock := func(b *pgx.Batch) { b.Queue(g.stmts.Lock) }
	return g.transact(ctx, lock, func(tx pgx.Tx, _ int64, err error) error {
		for _, stmt := range g.stmts.Schema {
			if err == nil {
				_, err = tx.Exec(ctx, stmt)
			}
		}
		if err != nil {
			return sqlmark.Because(ctx, fmt.Errorf("pgxguard: migrate: %w", err))
		}
		version, err := g.version(ctx, tx) // somebody else may have been first, with another version
		if err != nil {
			return g.explain(ctx, "migrate", err)
		}
		return g.checkVersion(version)
	})
}

func (g *Guard) checkVersion(v int64) error {
	if err := g.table.CheckVersion(v); err != nil {
		return fmt.Errorf("pgxguard: %w", err)
	}
	return nil
}

// version returns 0 if the tables have none, and fails if one of them is missing.
func (g *Guard) version(ctx context.Context, q queryer) (int64, error) {
	tok, err := token(q.QueryRow(ctx, g.stmts.Version, g.single))
	return int64(tok), err
}
