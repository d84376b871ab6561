package sqlguard

import (
	"context"
	"fmt"
	"strings"

	"github.com/fencedlock/fencedlock/guard/internal/sqlmark"
)

// Schema returns the statements that Migrate runs, each ended by a semicolon, for those who keep their own migrations.
// They change nothing when they are run again.
func (g *Guard) Schema() string {
	if g.made() != nil {
		return ""
	}
	return strings.Join(g.d.schema(), ";\n") + ";\n"
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
		version, err = g.version(ctx, g.db)
		return err
	})
	switch {
	case err != nil && !g.d.missingTable(err):
		return g.explain(ctx, "migrate", err)
	case err == nil && version != 0:
		return g.checkVersion(version)
	}
	return g.transact(ctx, func(t *attempt) error {
		if err := g.d.lockMigration(ctx, t.tx); err != nil {
			return sqlmark.Because(ctx, fmt.Errorf("sqlguard: migrate: %w", err))
		}
		for _, stmt := range g.d.schema() {
			if _, err := t.tx.ExecContext(ctx, stmt); err != nil {
				return sqlmark.Because(ctx, fmt.Errorf("sqlguard: migrate: %w", err))
			}
		}
		version, err := g.version(ctx, t.tx) // somebody else may have been first, with another version
		if err != nil {
			return g.explain(ctx, "migrate", err)
		}
		return g.checkVersion(version)
	})
}

func (g *Guard) checkVersion(v int64) error {
	if err := g.d.table().CheckVersion(v); err != nil {
		return fmt.Errorf("sqlguard: %w", err)
	}
	return nil
}

// version returns 0 if the tables have none, and fails if one of them is missing.
func (g *Guard) version(ctx context.Context, q queryer) (int64, error) {
	tok, err := token(q.QueryRowContext(ctx, g.d.versionStatement()))
	return int64(tok), err
}
