package sqlguard_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/sqlguard"
	"github.com/fencedlock/fencedlock/internal/mariadbtest"
)

const showIdle = "SELECT @@SESSION.idle_write_transaction_timeout"

func TestDoLimitsIdleTimeOfMariaDBAndTakesItBack(t *testing.T) {
	for _, c := range []struct {
		params       string
		before, inDo int
	}{
		{"", 0, 5}, {"?idle_write_transaction_timeout=3600", 3600, 5}, {"?idle_write_transaction_timeout=6", 6, 5},
		{"?idle_write_transaction_timeout=5", 5, 5}, {"?idle_write_transaction_timeout=2", 2, 2},
	} {
		db := openDB(t, "mysql", mariadbtest.Database(t)+c.params)
		db.SetMaxOpenConns(1)
		g := newGuard(t, db, sqlguard.MySQL, nil)
		mustExec(t, db, "CREATE TABLE doc (n int)")
		id := value[int](t, db, "SELECT CONNECTION_ID()")
		boom := errors.New("boom")
		for name, fn := range map[string]func(context.Context, *sql.Tx) error{
			"committed":   doExec("INSERT INTO doc VALUES (1)"),
			"rolled back": func(context.Context, *sql.Tx) error { return boom },
			"panicked":    func(context.Context, *sql.Tx) error { panic(boom) },
			"ended":       func(_ context.Context, tx *sql.Tx) error { return tx.Commit() },
		} {
			func() {
				defer func() { _ = recover() }()
				_ = g.Do(t.Context(), "x", 5, func(ctx context.Context, tx *sql.Tx) error {
					var got int
					if err := tx.QueryRowContext(ctx, showIdle).Scan(&got); err != nil || got != c.inDo {
						t.Errorf("%s, %s: %d inside Do, %v; want %d", c.params, name, got, err, c.inDo)
					}
					return fn(ctx, tx)
				})
			}()
			if got := value[int](t, db, showIdle); got != c.before {
				t.Errorf("%s, %s: %d after Do; want %d", c.params, name, got, c.before)
			}
			if got := value[int](t, db, "SELECT CONNECTION_ID()"); got != id {
				t.Errorf("%s, %s: the connection was not given back", c.params, name)
			}
		}
		// The context ends between two statements: database/sql rolls back at once, and the setting still goes back.
		ctx, cancel := context.WithCancel(t.Context())
		err := g.Do(ctx, "x", 5, func(context.Context, *sql.Tx) error { cancel(); return nil })
		if got := value[int](t, db, showIdle); got != c.before || !errors.Is(err, context.Canceled) {
			t.Errorf("%s, cancelled: %v, %d after Do; want %d", c.params, err, got, c.before)
		}
		if n := db.Stats().InUse; n != 0 {
			t.Errorf("%d connections were not given back", n)
		}
		// Check does not touch it.
		tx := begin(t, db)
		if err := g.Check(t.Context(), tx, "x", 5); err != nil {
			t.Fatal(err)
		}
		var got int
		if err := tx.QueryRow(showIdle).Scan(&got); err != nil || got != c.before {
			t.Errorf("%s: %d after Check, %v; want %d", c.params, got, err, c.before)
		}
		_ = tx.Rollback()
	}
}

// MySQL has no idle_write_transaction_timeout, no RETURNING, and reads past what MariaDB alone is told. Here the words for
// MariaDB are made into words for a MariaDB of the far future, so this one reads past them, too.
func TestDoTellsMySQLOnlyWhatItUnderstands(t *testing.T) {
	c, err := mysql.ParseDSN(mariadbtest.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		t.Fatal(err)
	}
	old := &oldConnector{Connector: connector}
	db := sql.OpenDB(old)
	defer db.Close()
	g := newGuard(t, db, sqlguard.MySQL, nil)
	mustExec(t, db, "CREATE TABLE doc (n int)")
	if err := g.Do(t.Context(), "x", 5, doExec("INSERT INTO doc VALUES (1)")); err != nil {
		t.Error(err)
	}
	if err := g.Do(t.Context(), "x", 4, doExec("INSERT INTO doc VALUES (1)")); !errors.Is(err, guard.ErrStale) {
		t.Error(err)
	}
	err = g.Do(t.Context(), "x", 5, func(ctx context.Context, tx *sql.Tx) error {
		return errors.Join(doExec("ROLLBACK")(ctx, tx), doExec("INSERT INTO doc VALUES (2)")(ctx, tx))
	})
	if !errors.Is(err, guard.ErrUnknown) {
		t.Errorf("fn that ended its transaction: %v; want ErrUnknown", err)
	}
	if n := value[int](t, db, "SELECT sum(n) FROM doc"); n != 1 {
		t.Errorf("the document holds %d; want 1", n)
	}
	if n := value[int](t, db, "SELECT @@SESSION.autocommit"); n != 1 {
		t.Errorf("autocommit is %d afterwards", n)
	}
	asked := false
	for _, q := range old.queries {
		asked = asked || strings.Contains(q, "/*M!100300") && strings.Contains(q, "FOR UPDATE")
		if strings.HasPrefix(q, "SET") && strings.Contains(q, "idle") {
			t.Errorf("MySQL is told %q", q)
		}
	}
	if !asked {
		t.Errorf("no statement was made for both: %q", old.queries)
	}
}

// oldConnector knows no idle limit, and keeps the statements.
type oldConnector struct {
	driver.Connector
	queries []string
}

func (c *oldConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	return oldConn{conn, c}, err
}

// oldConn hides the driver's faster ways, so that all statements are prepared.
type oldConn struct {
	driver.Conn
	c *oldConnector
}

func (o oldConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	o.c.queries = append(o.c.queries, query)
	return o.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, strings.ReplaceAll(query, "/*M!100", "/*M!999"))
}

func (o oldConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	return o.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
}
