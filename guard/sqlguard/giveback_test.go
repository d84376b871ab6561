package sqlguard_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/fencedlock/fencedlock/guard/sqlguard"
	"github.com/fencedlock/fencedlock/internal/mariadbtest"
)

// A connection that keeps Do's settings would store nothing of what its next user writes, who knows of no autocommit to wait
// for. So whoever comes next gets another one.
func TestConnectionThatKeepsDosSettingsIsNotGivenBack(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		name, fails string
		fn          error
	}{{"after COMMIT", "SET SESSION autocommit = 1", nil}, {"after an error", "SET SESSION autocommit = 1", boom}, {"no ROLLBACK", "ROLLBACK", boom}} {
		t.Run(c.name, func(t *testing.T) {
			cfg, err := mysql.ParseDSN(mariadbtest.Database(t))
			if err != nil {
				t.Fatal(err)
			}
			connector, err := mysql.NewConnector(cfg)
			if err != nil {
				t.Fatal(err)
			}
			stubborn := &stubbornConnector{Connector: connector}
			db := sql.OpenDB(stubborn)
			defer db.Close()
			db.SetMaxOpenConns(1)
			g := newGuard(t, db, sqlguard.MySQL, nil)
			mustExec(t, db, "CREATE TABLE doc (n int)")
			id := value[int](t, db, "SELECT CONNECTION_ID()")
			stubborn.fails.Store(&c.fails)
			err = g.Do(t.Context(), "x", 5, func(ctx context.Context, tx *sql.Tx) error { return c.fn })
			if !errors.Is(err, c.fn) {
				t.Errorf("Do = %v; want %v", err, c.fn)
			}
			if !stubborn.failed.Load() {
				t.Errorf("%q was not sent", c.fails)
			}
			mustExec(t, db, "INSERT INTO doc VALUES (1)")
			if got := value[int](t, db, "SELECT CONNECTION_ID()"); got == id {
				t.Error("the connection was given back")
			}
			if n := value[int](t, openDB(t, "mysql", cfg.FormatDSN()), "SELECT count(*) FROM doc"); n != 1 {
				t.Errorf("%d rows are stored; want the one of the next user", n)
			}
		})
	}
}

// stubbornConnector's connections fail one statement, and nothing else is wrong with them.
type stubbornConnector struct {
	driver.Connector
	fails  atomic.Pointer[string]
	failed atomic.Bool
}

func (c *stubbornConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	return stubbornConn{conn, c}, err
}

type stubbornConn struct {
	driver.Conn
	c *stubbornConnector
}

func (s stubbornConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if fails := s.c.fails.Load(); fails != nil && strings.HasPrefix(query, *fails) {
		s.c.failed.Store(true)
		return nil, errors.New("refused by the pooler")
	}
	return s.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}

func (s stubbornConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return s.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}

func (s stubbornConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	return s.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
}
