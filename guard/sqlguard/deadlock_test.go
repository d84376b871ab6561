package sqlguard_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/sqlguard"
	"github.com/fencedlock/fencedlock/internal/mariadbtest"
)

// deadlock makes tx the victim of a real deadlock, and returns the error of the statement that was chosen.
func deadlock(t *testing.T, db *sql.DB, tx *sql.Tx) error {
	t.Helper()
	mustExec(t, db, "DROP TABLE IF EXISTS knot", "CREATE TABLE knot (id int PRIMARY KEY, n int)",
		"INSERT INTO knot WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 100) SELECT i, 0 FROM c")
	// The one that has changed less is the victim.
	heavy := begin(t, db, "UPDATE knot SET n = 1 WHERE id > 1")
	if _, err := tx.Exec("UPDATE knot SET n = 2 WHERE id = 1"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := heavy.Exec("UPDATE knot SET n = 1 WHERE id = 1")
		done <- errors.Join(err, heavy.Rollback())
	}()
	for deadline := time.Now().Add(30 * time.Second); value[int](t, db, "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'INNODB_ROW_LOCK_CURRENT_WAITS'") == 0; {
		if time.Now().After(deadline) {
			t.Fatal("nobody waits")
		}
		time.Sleep(5 * time.Millisecond)
	}
	_, err := tx.Exec("UPDATE knot SET n = 2 WHERE id = 2")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err == nil || !strings.Contains(err.Error(), "1213") {
		t.Fatalf("no deadlock: %v", err)
	}
	return err
}

// InnoDB rolls the whole transaction of a deadlock's victim back, and a statement that defines something commits it. In
// both cases the mark's row is free, the next holder gets through, and what the earlier one sends afterwards would be stored
// at once: https://mariadb.com/kb/en/sql-statements-that-cause-an-implicit-commit/,
// https://dev.mysql.com/doc/refman/8.0/en/innodb-error-handling.html
func TestWhatFollowsTheLossOfTheTransactionIsNotStored(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		name   string
		end    func(*testing.T, *sql.DB, *sql.Tx) error
		errFn  error
		stored int // of what fn wrote before
	}{
		{"deadlock, passed over", deadlock, nil, 0},
		{"deadlock, another error", deadlock, boom, 0},
		{"definition", create, nil, 1},
		{"definition, then an error", create, boom, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := openMariaDB(t)
			g := newGuard(t, db, sqlguard.MySQL, nil)
			mustExec(t, db, "CREATE TABLE doc (n int)")
			runs := 0
			err := g.Do(t.Context(), "x", 5, func(ctx context.Context, tx *sql.Tx) error {
				runs++
				if err := doExec("INSERT INTO doc VALUES (1)")(ctx, tx); err != nil {
					return err
				}
				_ = c.end(t, db, tx)
				if err := g.Do(ctx, "x", 6, doExec("INSERT INTO doc VALUES (60)")); err != nil {
					t.Errorf("the next holder: %v", err)
				}
				if err := doExec("INSERT INTO doc VALUES (500)")(ctx, tx); err != nil {
					t.Error(err)
				}
				return c.errFn
			})
			if !errors.Is(err, guard.ErrUnknown) || c.errFn != nil && !errors.Is(err, c.errFn) || runs != 1 {
				t.Errorf("Do = %v after %d runs; want ErrUnknown after one", err, runs)
			}
			if n := value[int](t, db, "SELECT sum(n) FROM doc"); n != 60+c.stored {
				t.Errorf("the document holds %d; want %d, without the 500 that nothing guarded", n, 60+c.stored)
			}
			if n := db.Stats().InUse; n != 0 {
				t.Errorf("%d connections were not given back", n)
			}
			// The same without the guard, to see that it is the guard that helps.
			tx := begin(t, db)
			_ = c.end(t, db, tx)
			if _, err := tx.Exec("INSERT INTO doc VALUES (500)"); err != nil {
				t.Error(err)
			}
			_ = tx.Rollback()
			if n := value[int](t, db, "SELECT sum(n) FROM doc"); n < 500 {
				t.Errorf("without the guard the document holds %d; the late write should be stored", n)
			}
		})
	}
}

func create(_ *testing.T, _ *sql.DB, tx *sql.Tx) error {
	_, err := tx.Exec("CREATE TABLE IF NOT EXISTS another (n int)")
	return err
}

// An fn that goes on after a deadlock and then returns it is run again, and what it wrote in between is written once.
func TestDeadlockReturnedLateIsRunAgain(t *testing.T) {
	db := openMariaDB(t)
	g := newGuard(t, db, sqlguard.MySQL, nil)
	mustExec(t, db, "CREATE TABLE doc (n int)")
	runs := 0
	err := g.Do(t.Context(), "x", 5, func(ctx context.Context, tx *sql.Tx) error {
		var late error
		if runs++; runs == 1 {
			late = deadlock(t, db, tx)
		}
		return errors.Join(late, doExec("INSERT INTO doc VALUES (1)")(ctx, tx))
	})
	if n := value[int](t, db, "SELECT count(*) FROM doc"); err != nil || runs != 2 || n != 1 {
		t.Errorf("Do = %v after %d runs, %d rows; want nil after 2, and 1", err, runs, n)
	}
}

// Switching autocommit on again commits what is open. After a COMMIT that was refused on the way nothing may be.
func TestSettingsTakenBackCommitNothing(t *testing.T) {
	c, err := mysql.ParseDSN(mariadbtest.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(refusingConnector{connector})
	defer db.Close()
	direct := openDB(t, "mysql", c.FormatDSN())
	newGuard(t, direct, sqlguard.MySQL, nil)
	mustExec(t, direct, "CREATE TABLE doc (n int)")
	g, err := sqlguard.New(db, sqlguard.MySQL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Do(t.Context(), "x", 5, doExec("INSERT INTO doc VALUES (1)")); !errors.Is(err, guard.ErrUnknown) {
		t.Errorf("Do = %v; want ErrUnknown", err)
	}
	if n := value[int](t, direct, "SELECT count(*) FROM doc"); n != 0 {
		t.Errorf("%d rows are stored", n)
	}
}

// refusingConnector is the driver with a pooler behind it that passes no COMMIT on.
type refusingConnector struct{ driver.Connector }

func (c refusingConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	return refusingConn{conn}, err
}

type refusingConn struct{ driver.Conn }

func (c refusingConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	tx, err := c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
	return refusingTx{tx}, err
}

type refusingTx struct{ driver.Tx }

func (refusingTx) Commit() error { return errors.New("refused by the pooler") }
