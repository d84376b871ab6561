//go:build unix

package integration

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	_ "modernc.org/sqlite"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/sqlguard"
	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/internal/child"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

// connected runs f with a session of this process.
func connected(endpoint string, o session.Options, f func(s *session.Session) error) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}})
	if err != nil {
		return err
	}
	defer client.Close()
	s, err := session.New(context.Background(), client, &o)
	if err != nil {
		return err
	}
	return errors.Join(f(s), s.Close())
}

// writer is a process that locks "page" and writes its name to it, when it is told so: it looks whether it still has the lock
// as a separate step, long before the write.
func writer(self *child.Self) error {
	endpoint, dsn, name, guarded := self.Args[0], self.Args[1], self.Args[2], self.Args[3] == "guarded"
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	g, err := sqlguard.New(db, sqlguard.SQLite, nil)
	if err != nil {
		return err
	}
	ctx := context.Background()
	const update = "UPDATE page SET body = body || ?"
	write := func(h *lock.Held) error {
		if !guarded {
			_, err := db.ExecContext(ctx, update, name)
			return err
		}
		return g.Do(ctx, h.Resource(), h.Token(), func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, update, name)
			return err
		})
	}
	return connected(endpoint, session.Options{TTL: 2 * time.Second}, func(s *session.Session) error {
		h, err := lock.NewMutex(s, "page").Lock(ctx)
		if err != nil {
			return err
		}
		self.Say("locked %d", int64(h.Token()))
		for command := range self.Commands() {
			switch command {
			case "check":
				self.Say("lost %t", errors.Is(h.Err(), lock.ErrLost))
			case "write":
				err := write(h)
				var stale *guard.StaleError
				if errors.As(err, &stale) {
					self.Say("stale %d", int64(stale.Highest))
				} else {
					self.Say("wrote %v", err)
				}
			case "unlock":
				err := h.Unlock()
				self.Say("unlocked, lost %t %v", errors.Is(err, lock.ErrLost), err)
			case "end":
				return nil
			}
		}
		return nil
	})
}

// https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html, https://github.com/etcd-io/etcd/issues/10811,
// https://jepsen.io/blog/2020-01-30-etcd-3.4.3: a holder that was paused after its last look at the lock writes when its
// successor has written.
func TestPausedHoldersWriteIsRefusedByTheGuard(t *testing.T) {
	body, successor, seen := pausedHolder(t, "guarded")
	if body != "B" {
		t.Errorf("the page is %q, want the successor's write alone", body)
	}
	if seen != "stale "+successor {
		t.Errorf("the paused holder was told %q, want the successor's token %s", seen, successor)
	}
}

func TestPausedHoldersWriteCorruptsWhatHasNoGuard(t *testing.T) {
	if body, _, _ := pausedHolder(t, "unguarded"); body != "BA" {
		t.Errorf("the page is %q; without a guard the late write lands", body)
	}
}

func pausedHolder(t *testing.T, mode string) (body, successor, seen string) {
	t.Parallel()
	cluster := etcdtest.Start(t, nil)
	dsn := "file:" + filepath.Join(t.TempDir(), "page.db") + "?_txlock=immediate&_pragma=busy_timeout(10000)"
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	g, err := sqlguard.New(db, sqlguard.SQLite, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE page (body TEXT); INSERT INTO page VALUES ('')"); err != nil {
		t.Fatal(err)
	}
	const within = 30 * time.Second
	start := func(name string) (p *child.Process, token string) {
		p = child.Start(t, "writer", cluster.Endpoints()[0], dsn, name, mode)
		return p, p.Expect("locked", within)
	}

	a, first := start("A")
	a.Send("check")
	if lost := a.Expect("lost", within); lost != "false" {
		t.Fatalf("A has lost the lock before its pause: %s", lost)
	}
	a.Stop()
	a.Send("write") // what A does next, whenever that is

	b, second := start("B") // waits until A's lease has lapsed
	if x, y := number(t, first), number(t, second); y <= x {
		t.Errorf("token %d after %d", y, x)
	}
	b.Send("write")
	if err := b.Expect("wrote", within); err != "<nil>" {
		t.Fatalf("B's write: %s", err)
	}
	a.Continue()
	if mode == "guarded" {
		seen = "stale " + a.Expect("stale", within)
	} else {
		seen = "wrote " + a.Expect("wrote", within)
	}
	a.Send("check")
	if lost := a.Expect("lost", within); lost != "true" {
		t.Errorf("A after its pause: lost %s", lost)
	}
	a.Send("unlock")
	if got := a.Expect("unlocked, lost", within); got[:4] != "true" {
		t.Errorf("A's Unlock: %s", got)
	}
	b.Send("check")
	if lost := b.Expect("lost", within); lost != "false" {
		t.Errorf("B: lost %s", lost)
	}
	b.Send("unlock")
	if got := b.Expect("unlocked, lost", within); got != "false <nil>" {
		t.Errorf("B's Unlock: %s", got)
	}
	if err := db.QueryRowContext(t.Context(), "SELECT body FROM page").Scan(&body); err != nil {
		t.Fatal(err)
	}
	b.Send("end")
	if err := b.Wait(within); err != nil {
		t.Error(err)
	}
	a.Send("end")
	if err := a.Wait(within); err != nil {
		t.Error(err)
	}
	client := cluster.Client(t)
	etcdtest.AssertEmpty(t, client, "/fencedlock/", 0)
	return body, second, seen
}

func number(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(fmt.Errorf("token: %w", err))
	}
	return n
}
