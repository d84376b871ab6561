package sqlguard_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/sqlguard"
	"github.com/fencedlock/fencedlock/internal/pgtest"
)

// A COMMIT whose reply is lost looks like a failure, and is done twice by whoever runs it again:
// https://github.com/golang/go/issues/11978, https://github.com/lib/pq/issues/939,
// https://github.com/go-sql-driver/mysql/pull/302, https://github.com/cirello-io/pglock/issues/175
func TestLostCommitReplyIsUnknownAndNeverReplayed(t *testing.T) {
	for _, c := range []struct {
		name   string
		fault  pgtest.CommitFault
		stored int // when Do returns
	}{
		{"the reply is lost", pgtest.LoseReply, 1},
		{"the request is lost", pgtest.LoseRequest, 0},
		{"the request is late", pgtest.DelayRequest, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			dsn := pgtest.Schema(t)
			direct := openDB(t, "pgx", dsn)
			mustExec(t, direct, "CREATE TABLE account (n int)", "INSERT INTO account VALUES (0)", "CREATE TABLE done (id text PRIMARY KEY)")
			proxy, through := pgtest.NewProxy(t, dsn)
			var outcomes []error
			g := newGuard(t, openDB(t, "pgx", through), sqlguard.Postgres, &sqlguard.Options{
				OnOutcome: func(_ context.Context, _ string, _ guard.Token, err error) { outcomes = append(outcomes, err) },
			})
			runs := 0
			credit := func(ctx context.Context, tx *sql.Tx) error {
				runs++
				res, err := tx.ExecContext(ctx, "INSERT INTO done VALUES ('credit 4711') ON CONFLICT DO NOTHING")
				if err != nil {
					return err
				}
				if n, err := res.RowsAffected(); err != nil || n == 0 { // the earlier one was stored
					return err
				}
				_, err = tx.ExecContext(ctx, "UPDATE account SET n = n + 1")
				return err
			}

			hit := proxy.Fail(c.fault)
			err := g.Do(t.Context(), "account", 5, credit)
			if !errors.Is(err, guard.ErrUnknown) || errors.Is(err, guard.ErrStale) {
				t.Errorf("Do = %v; want ErrUnknown", err)
			}
			<-hit
			if runs != 1 || len(outcomes) != 1 || !errors.Is(outcomes[0], guard.ErrUnknown) {
				t.Errorf("fn ran %d times, outcomes %v; want one of each", runs, outcomes)
			}
			if n := value[int](t, direct, "SELECT n FROM account"); n != c.stored {
				t.Errorf("the account says %d; want %d", n, c.stored)
			}

			// The way out that Do's documentation gives. It waits for the earlier transaction, so its answer is final.
			again := make(chan error, 1)
			go func() { again <- newGuard(t, direct, sqlguard.Postgres, nil).Do(t.Context(), "account", 5, credit) }()
			if c.fault == pgtest.DelayRequest {
				waitForLock(t, direct)
				proxy.Release()
			}
			if err := <-again; err != nil {
				t.Error(err)
			}
			if n := value[int](t, direct, "SELECT n FROM account"); n != 1 {
				t.Errorf("after looking and doing it again the account says %d; want 1", n)
			}
		})
	}
}

// waitForLock returns when a session waits for a lock.
func waitForLock(t *testing.T, db *sql.DB) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); value[int](t, db, "SELECT count(*) FROM pg_locks WHERE NOT granted") == 0; {
		if time.Now().After(deadline) {
			t.Fatal("nobody waits")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// A driver says "bad connection" after the server has committed; database/sql takes that for an invitation to try again.
func TestBadConnectionAtCommitIsNoInvitationToReplay(t *testing.T) {
	cfg, err := pgx.ParseConfig(pgtest.Schema(t))
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(lateConnector{stdlib.GetConnector(*cfg)})
	defer db.Close()
	g, err := sqlguard.New(db, sqlguard.Postgres, nil)
	if err != nil {
		t.Fatal(err)
	}
	mustExec(t, db, g.Schema(), "CREATE TABLE account (n int)", "INSERT INTO account VALUES (0)")
	runs := 0
	err = g.Do(t.Context(), "account", 5, func(ctx context.Context, tx *sql.Tx) error {
		runs++
		_, err := tx.ExecContext(ctx, "UPDATE account SET n = n + 1")
		return err
	})
	if !errors.Is(err, guard.ErrUnknown) || !errors.Is(err, driver.ErrBadConn) || runs != 1 {
		t.Errorf("Do = %v after %d runs; want ErrUnknown after one", err, runs)
	}
	if n := value[int](t, db, "SELECT n FROM account"); n != 1 {
		t.Errorf("the account says %d; want 1", n)
	}
}

// lateConnector is pgx, but for COMMIT, which works and says that it did not.
type lateConnector struct{ driver.Connector }

func (c lateConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return lateConn{conn.(*stdlib.Conn)}, nil
}

type lateConn struct{ *stdlib.Conn }

func (c lateConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	tx, err := c.Conn.BeginTx(ctx, opts)
	return lateTx{tx}, err
}

type lateTx struct{ driver.Tx }

func (t lateTx) Commit() error {
	if err := t.Tx.Commit(); err != nil {
		return err
	}
	return driver.ErrBadConn
}

// What the server refuses at COMMIT is known not to be stored: calling it unknown would stop people for nothing.
func TestCommitThatTheServerRefusesIsNotUnknown(t *testing.T) {
	db := openPostgres(t)
	g := newGuard(t, db, sqlguard.Postgres, nil)
	mustExec(t, db, "CREATE TABLE parent (id int PRIMARY KEY)",
		"CREATE TABLE child (id int REFERENCES parent DEFERRABLE INITIALLY DEFERRED)")
	for name, fn := range map[string]func(context.Context, *sql.Tx) error{
		"deferred constraint": doExec("INSERT INTO child VALUES (1)"),
		"a failed statement that fn swallowed": func(ctx context.Context, tx *sql.Tx) error {
			_, _ = tx.ExecContext(ctx, "SELECT 1/0")
			return nil
		},
	} {
		if err := g.Do(t.Context(), name, 5, fn); err == nil || errors.Is(err, guard.ErrUnknown) {
			t.Errorf("%s: %v; want an error that is not ErrUnknown", name, err)
		}
		if high, err := g.Highest(t.Context(), name); high != 0 || err != nil {
			t.Errorf("%s: Highest = %d, %v; want 0", name, high, err)
		}
	}
}

// The context ends while COMMIT is on its way: nobody knows how far it got.
func TestContextThatEndsDuringCommitLeavesTheOutcomeUnknown(t *testing.T) {
	db := openPostgres(t)
	g := newGuard(t, db, sqlguard.Postgres, nil)
	mustExec(t, db, "CREATE TABLE doc (n int)",
		"CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(30); RETURN NULL; END'",
		"CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON doc DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	go func() {
		defer cancel()
		for ctx.Err() == nil {
			var sleeping bool
			err := db.QueryRowContext(ctx, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query ILIKE 'commit')").Scan(&sleeping)
			if err != nil || sleeping {
				return
			}
		}
	}()
	err := g.Do(ctx, "x", 5, doExec("INSERT INTO doc VALUES (1)"))
	if !errors.Is(err, guard.ErrUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("Do = %v; want ErrUnknown and context.Canceled", err)
	}
}
