package grpcguard_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/sqlguard"
)

// store is a table with a value for each resource, in a file.
type store struct {
	db *sql.DB
	g  *sqlguard.Guard
}

func openStore(t testing.TB, file string) *store {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(off)")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1) // writers queue up in the pool, which is faster than in SQLite
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.Exec("CREATE TABLE IF NOT EXISTS kv (resource TEXT PRIMARY KEY, value BLOB NOT NULL)"); err != nil {
		t.Fatal(err)
	}
	g, err := sqlguard.New(db, sqlguard.SQLite, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &store{db, g}
}

func newStore(t testing.TB) *store {
	t.Helper()
	return openStore(t, filepath.Join(t.TempDir(), "test.db"))
}

const upsert = "INSERT INTO kv VALUES (?, ?) ON CONFLICT (resource) DO UPDATE SET value = excluded.value"

func (s *store) handle(ctx context.Context, method string, in []byte) ([]byte, error) {
	resource, tok, _ := guard.FromContext(ctx)
	do := func(query string, args ...any) error {
		return s.g.Do(ctx, resource, tok, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, query, args...)
			return err
		})
	}
	switch method {
	case methodPut:
		return nil, do(upsert, resource, string(in))
	case methodDelete:
		return nil, do("DELETE FROM kv WHERE resource = ?", resource)
	case methodSeal:
		return nil, s.g.Seal(ctx, resource, tok)
	case methodHighest:
		tok, err := s.g.Highest(ctx, string(in))
		return []byte(tok.String()), err
	}
	return s.read(ctx, string(in))
}

func (s *store) read(ctx context.Context, resource string) (value []byte, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT value FROM kv WHERE resource = ?", resource).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return value, err
}

// stored fails the test unless the resource has the value.
func (s *store) stored(t testing.TB, resource, want string) {
	t.Helper()
	if got, err := s.read(context.Background(), resource); err != nil || string(got) != want {
		t.Errorf("stored %q, %v; want %q", got, err, want)
	}
}

// readers lets pass what only reads.
func readers(_ context.Context, method string) bool {
	return method == methodRead || method == methodHighest
}
