//go:build unix

package integration

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/etcdguard"
	"github.com/fencedlock/fencedlock/guard/fileguard"
	"github.com/fencedlock/fencedlock/guard/sqlguard"
	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/lock"
)

// guardedResource is one text behind a guard of some kind.
type guardedResource struct {
	name  string
	marks guard.Sealer
	write func(ctx context.Context, resource string, tok guard.Token, text string) error
	read  func(t *testing.T) string
	raise func(ctx context.Context, resource string, floor guard.Token) error // whatever else changes a mark; nil: nothing does
}

const guardedName = "account/1"

// guardedResources are one in SQLite, one in an etcd of its own, and one in a file.
func guardedResources(t *testing.T) []guardedResource {
	return []guardedResource{inSQLite(t), inEtcd(t), inFile(t)}
}

func inSQLite(t *testing.T) guardedResource {
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "db")+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE page (body); INSERT INTO page VALUES ('')"); err != nil {
		t.Fatal(err)
	}
	g, err := sqlguard.New(db, sqlguard.SQLite, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return guardedResource{
		name: "sqlguard", marks: g,
		write: func(ctx context.Context, resource string, tok guard.Token, text string) error {
			return g.Do(ctx, resource, tok, func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "UPDATE page SET body = ?", text)
				return err
			})
		},
		read: func(t *testing.T) (text string) {
			if err := db.QueryRowContext(t.Context(), "SELECT body FROM page").Scan(&text); err != nil {
				t.Fatal(err)
			}
			return text
		},
	}
}

func inEtcd(t *testing.T) guardedResource {
	client := etcdtest.Start(t, nil).Client(t)
	g, err := etcdguard.New(client, nil)
	if err != nil {
		t.Fatal(err)
	}
	return guardedResource{
		name: "etcdguard", marks: g,
		write: func(ctx context.Context, resource string, tok guard.Token, text string) error {
			return g.Do(ctx, resource, tok, clientv3.OpPut("page", text))
		},
		read: func(t *testing.T) string {
			resp, err := client.Get(t.Context(), "page")
			if err != nil || len(resp.Kvs) != 1 {
				t.Fatal(resp, err)
			}
			return string(resp.Kvs[0].Value)
		},
	}
}

func inFile(t *testing.T) guardedResource {
	dir := t.TempDir()
	g, err := fileguard.New(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	return guardedResource{
		name: "fileguard", marks: g,
		write: func(ctx context.Context, resource string, tok guard.Token, text string) error {
			return g.WriteFile(ctx, resource, tok, "page", []byte(text), 0o644)
		},
		read: func(t *testing.T) string {
			text, err := os.ReadFile(filepath.Join(dir, "page"))
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		},
		raise: g.Repair,
	}
}

func (r guardedResource) mustWrite(t *testing.T, h *lock.Held, text string) {
	t.Helper()
	if err := r.write(t.Context(), h.Resource(), h.Token(), text); err != nil {
		t.Fatalf("%s: writing with token %d: %v", r.name, h.Token(), err)
	}
	if got := r.read(t); got != text {
		t.Fatalf("%s holds %q after writing %q", r.name, got, text)
	}
}

// refuses tries everything that could let tok in, and sees that mark and text stay.
func (r guardedResource) refuses(t *testing.T, tok, mark guard.Token) {
	t.Helper()
	ctx, before := t.Context(), r.read(t)
	var stale *guard.StaleError
	if err := r.write(ctx, guardedName, tok, "late"); !errors.As(err, &stale) || stale.Highest != mark {
		t.Errorf("%s: writing with token %d: %v; want stale by %d", r.name, tok, err, mark)
	}
	if err := r.marks.Seal(ctx, guardedName, tok); !errors.Is(err, guard.ErrStale) {
		t.Errorf("%s: sealing with token %d: %v; want stale", r.name, tok, err)
	}
	if r.raise != nil {
		if err := r.raise(ctx, guardedName, tok); err != nil {
			t.Errorf("%s: raising to token %d: %v", r.name, tok, err)
		}
	}
	if got, err := r.marks.Highest(ctx, guardedName); err != nil || got != mark {
		t.Errorf("%s: the mark is %d, %v; want %d as before", r.name, got, err, mark)
	}
	if got := r.read(t); got != before {
		t.Errorf("%s holds %q, and held %q", r.name, got, before)
	}
}
