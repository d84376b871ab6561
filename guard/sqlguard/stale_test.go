package sqlguard_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/sqlguard"
)

// A holder passes its last look at the lock, is paused, and writes when it wakes up:
// https://github.com/etcd-io/etcd/issues/10811, https://jepsen.io/blog/2020-01-30-etcd-3.4.3,
// https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html
func TestPausedHolderCannotOverwriteItsSuccessor(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		db := b.open(t)
		g := newGuard(t, db, b.dialect, nil)
		mustExec(t, db, "CREATE TABLE doc (name "+b.key+" PRIMARY KEY, body text)", "INSERT INTO doc VALUES ('x', 'empty')")
		const first, second guard.Token = 5, 7
		write := func(body string) func(context.Context, *sql.Tx) error {
			return doExec(b.sql("UPDATE doc SET body = $1 WHERE name = 'x'"), body)
		}

		looked, resume := make(chan struct{}), make(chan struct{})
		late := make(chan error, 1)
		go func() {
			// Here its process looks whether it holds the lock. It does.
			close(looked)
			<-resume // the pause
			late <- g.Do(context.Background(), "x", first, write("of the first holder"))
		}()
		<-looked
		if err := g.Do(t.Context(), "x", second, write("of the second holder")); err != nil {
			t.Error(err)
		}
		close(resume)
		err := <-late
		var stale *guard.StaleError
		if !errors.As(err, &stale) || *stale != (guard.StaleError{Resource: "x", Token: first, Highest: second}) {
			t.Errorf("the late write: %v; want a StaleError with both tokens", err)
		}
		if got := value[string](t, db, "SELECT body FROM doc"); got != "of the second holder" {
			t.Errorf("the document is %q", got)
		}

		// The same without a guard, to see that it is the guard that helps.
		if _, err := db.Exec("UPDATE doc SET body = 'of the first holder' WHERE name = 'x'"); err != nil {
			t.Fatal(err)
		}
		if got := value[string](t, db, "SELECT body FROM doc"); got != "of the first holder" {
			t.Errorf("without the guard the document is %q; it should be corrupt", got)
		}
	})
}

// A token of zero that means "no fencing" lets everybody in:
// https://github.com/awslabs/amazon-dynamodb-lock-client/issues/1, https://github.com/awslabs/amazon-dynamodb-lock-client/issues/62,
// https://github.com/bsm/redislock/pull/94
func TestMissingTokenIsNoPermission(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		db := b.open(t)
		g := newGuard(t, db, b.dialect, nil)
		for _, r := range []string{"new", "marked"} {
			if r == "marked" {
				if err := g.Seal(t.Context(), r, 5); err != nil {
					t.Fatal(err)
				}
			}
			for _, tok := range []guard.Token{0, -1, -1 << 63} {
				ran := false
				err := g.Do(t.Context(), r, tok, func(context.Context, *sql.Tx) error { ran = true; return nil })
				if !errors.Is(err, guard.ErrNoToken) || ran {
					t.Errorf("Do with token %d: %v, ran %v", tok, err, ran)
				}
				tx, err := db.Begin()
				if err != nil {
					t.Fatal(err)
				}
				if err := g.Check(t.Context(), tx, r, tok); !errors.Is(err, guard.ErrNoToken) {
					t.Errorf("Check with token %d: %v", tok, err)
				}
				if err := tx.Commit(); !errors.Is(err, sql.ErrTxDone) {
					t.Errorf("after a refused Check, Commit: %v; want ErrTxDone", err)
				}
			}
		}
		// The token of another lock, and of a holder that has been followed, are like any other: compared with this mark.
		if err := g.Seal(t.Context(), "marked", 4); !errors.Is(err, guard.ErrStale) {
			t.Errorf("a former holder's token: %v", err)
		}
		if n := value[int](t, db, "SELECT count(*) FROM fencedlock_marks WHERE resource <> ''"); n != 1 {
			t.Errorf("%d resources are marked; want 1", n)
		}
	})
}

// A refused Check inside the user's transaction must not make the next holder wait for the user's clean-up.
func TestRefusedCheckLetsGoOfTheRowAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		db := b.open(t)
		g := newGuard(t, db, b.dialect, nil)
		if err := g.Seal(t.Context(), "x", 7); err != nil {
			t.Fatal(err)
		}
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		if err := g.Check(t.Context(), tx, "x", 5); !errors.Is(err, guard.ErrStale) {
			t.Fatalf("Check = %v; want ErrStale", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := g.Do(ctx, "x", 7, func(context.Context, *sql.Tx) error { return nil }); err != nil {
			t.Errorf("the holder waits for a refused transaction: %v", err)
		}
		if _, err := tx.Exec("CREATE TABLE unguarded (n int)"); !errors.Is(err, sql.ErrTxDone) {
			t.Errorf("the refused transaction goes on: %v", err)
		}
	})
}

// The mark and the data are stored together or not at all.
func TestMarkIsNotRaisedWithoutTheWrite(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		db := b.open(t)
		g := newGuard(t, db, b.dialect, nil)
		boom := errors.New("boom")
		if err := g.Do(t.Context(), "x", 5, func(context.Context, *sql.Tx) error { return boom }); err != boom {
			t.Errorf("Do = %v; want fn's own error", err)
		}
		if got, err := g.Highest(t.Context(), "x"); got != 0 || err != nil {
			t.Errorf("Highest = %d, %v; want 0", got, err)
		}
	})
}

var _ guard.Sealer = (*sqlguard.Guard)(nil)
