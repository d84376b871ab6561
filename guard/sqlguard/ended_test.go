package sqlguard_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/sqlguard"
	"github.com/fencedlock/fencedlock/internal/pgtest"
)

// mute is pgx's driver without the methods that are its own, as drivers that trace hide them.
var mute = backend{"Postgres, mute driver", sqlguard.Postgres, func(t testing.TB) *sql.DB {
	cfg, err := pgx.ParseConfig(pgtest.Schema(t))
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(muteConnector{stdlib.GetConnector(*cfg)})
	t.Cleanup(func() { _ = db.Close() })
	return db
}, "bigserial", "text", "text"}

type muteConnector struct{ driver.Connector }

func (c muteConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return muteConn{conn, conn.(*stdlib.Conn), conn.(*stdlib.Conn)}, nil
}

type muteConn struct {
	driver.Conn
	driver.ConnBeginTx
	driver.ExecerContext
}

// Whoever ends Do's transaction inside fn takes the outcome out of its hands: part of it may be stored, so neither may Do
// say that nothing is, nor run fn again, whatever fn returns. On PostgreSQL COMMIT outside of a transaction succeeds.
func TestTransactionThatFnEndedIsUnknown(t *testing.T) {
	exec := func(stmt string) func(*sql.Tx) error {
		return func(tx *sql.Tx) error { _, err := tx.Exec(stmt); return err }
	}
	for _, b := range append(backends, mute) {
		t.Run(b.name, func(t *testing.T) {
			db := b.open(t)
			g := newGuard(t, db, b.dialect, nil)
			mustExec(t, db, "CREATE TABLE doc (n int)")
			conflict := conflictOf(t, backendOf(b.dialect))
			for name, end := range map[string]func(*sql.Tx) error{"Commit": (*sql.Tx).Commit, "Rollback": (*sql.Tx).Rollback,
				"COMMIT": exec("COMMIT"), "ROLLBACK": exec("ROLLBACK")} {
				for _, errFn := range []error{nil, errors.New("boom"), conflict} {
					if errFn == conflict && b.dialect == sqlguard.MySQL && strings.ToUpper(name) == name {
						continue // an error that has ended the transaction in all likelihood
					}
					mustExec(t, db, "DELETE FROM doc")
					runs := 0
					err := g.Do(t.Context(), "x", 5, func(_ context.Context, tx *sql.Tx) error {
						runs++
						if err := errors.Join(exec("INSERT INTO doc VALUES (1)")(tx), end(tx)); err != nil {
							t.Error(err)
						}
						return errFn
					})
					if !errors.Is(err, guard.ErrUnknown) || errFn != nil && !errors.Is(err, errFn) || runs != 1 {
						t.Errorf("%s by fn, which returned %v: %v after %d runs; want ErrUnknown after one", name, errFn, err, runs)
					}
					if n := value[int](t, db, "SELECT count(*) FROM doc"); (n == 1) != strings.EqualFold(name, "commit") {
						t.Errorf("%s by fn: %d rows are stored", name, n)
					}
				}
			}
		})
	}
}

// A refusal inside fn ends the transaction, too, and then it is known what became of it.
func TestRefusalInsideFnIsNotUnknown(t *testing.T) {
	for _, b := range append(backends, mute) {
		t.Run(b.name, func(t *testing.T) {
			db := b.open(t)
			g := newGuard(t, db, b.dialect, nil)
			other := newGuard(t, db, b.dialect, &sqlguard.Options{Table: "others"})
			mustExec(t, db, "CREATE TABLE doc (n int)")
			if err := other.Seal(t.Context(), "b", 7); err != nil {
				t.Fatal(err)
			}
			boom := errors.New("boom")
			for name, c := range map[string]struct {
				of   func(error) error
				want error
			}{
				"returned": {func(err error) error { return err }, guard.ErrStale},
				"replaced": {func(error) error { return boom }, boom},
				"ignored":  {func(error) error { return nil }, guard.ErrStale},
			} {
				err := g.Do(t.Context(), "a", 5, func(ctx context.Context, tx *sql.Tx) error {
					if err := doExec("INSERT INTO doc VALUES (1)")(ctx, tx); err != nil {
						t.Error(err)
					}
					return c.of(other.Check(ctx, tx, "b", 6))
				})
				if !errors.Is(err, c.want) || errors.Is(err, guard.ErrUnknown) {
					t.Errorf("%s: Do = %v; want %v", name, err, c.want)
				}
			}
			err := g.Do(t.Context(), "a", 5, func(ctx context.Context, tx *sql.Tx) error {
				_, _ = g.Once(ctx, tx, "a", "")
				return nil
			})
			if err == nil || errors.Is(err, guard.ErrUnknown) || !strings.Contains(err.Error(), "operation") {
				t.Errorf("Once's error ignored: Do = %v; want that error", err)
			}
			if n := value[int](t, db, "SELECT count(*) FROM doc"); n != 0 {
				t.Errorf("%d rows of refused transactions are stored", n)
			}
			// What fn had committed before is stored all the same.
			err = g.Do(t.Context(), "a", 5, func(ctx context.Context, tx *sql.Tx) error {
				if err := errors.Join(doExec("INSERT INTO doc VALUES (1)")(ctx, tx), doExec("COMMIT")(ctx, tx)); err != nil {
					t.Error(err)
				}
				return other.Check(ctx, tx, "b", 6)
			})
			if n := value[int](t, db, "SELECT count(*) FROM doc"); n != 1 || !errors.Is(err, guard.ErrUnknown) {
				t.Errorf("after a COMMIT: Do = %v, %d rows; want ErrUnknown and 1", err, n)
			}
		})
	}
}

// A broken connection that the pool still has costs another attempt, as it does without the guard, not an error.
func TestBrokenConnectionsOfThePoolAreReplaced(t *testing.T) {
	cfg, err := pgx.ParseConfig(pgtest.Schema(t))
	if err != nil {
		t.Fatal(err)
	}
	c := &brokenConnector{Connector: stdlib.GetConnector(*cfg)}
	db := sql.OpenDB(c)
	defer db.Close()
	db.SetMaxIdleConns(30)
	var idle []*sql.Conn
	for range 15 {
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, conn)
	}
	for _, conn := range idle {
		_ = conn.Close()
	}
	c.broken = len(idle)                                                                  // the server was started anew
	newGuard(t, openDB(t, "pgx", stdlib.RegisterConnConfig(cfg)), sqlguard.Postgres, nil) // its table, over good ones
	g, err := sqlguard.New(db, sqlguard.Postgres, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Seal(t.Context(), "x", 5); err != nil || c.broken != 0 {
		t.Errorf("Seal = %v, %d broken connections left", err, c.broken)
	}
	if n := db.Stats().OpenConnections; n != 1 {
		t.Errorf("%d connections are open; want the new one", n)
	}
	c.broken = 1000
	if err := g.Seal(t.Context(), "x", 5); !errors.Is(err, driver.ErrBadConn) || errors.Is(err, guard.ErrUnknown) {
		t.Errorf("without a single good one: %v", err)
	}
	if n := 1000 - c.broken; n > 10 {
		t.Errorf("%d tries without a single good connection", n)
	}
	if n := db.Stats().InUse; n != 0 {
		t.Errorf("%d connections were not given back", n)
	}
}

// brokenConnector's first connections say at the beginning of a transaction that they are broken.
type brokenConnector struct {
	driver.Connector
	broken int
}

func (c *brokenConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return brokenConn{conn.(*stdlib.Conn), c}, nil
}

type brokenConn struct {
	*stdlib.Conn
	c *brokenConnector
}

func (b brokenConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if b.c.broken > 0 {
		b.c.broken--
		return nil, fmt.Errorf("begin: %w", driver.ErrBadConn)
	}
	return b.Conn.BeginTx(ctx, opts)
}
