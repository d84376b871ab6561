package lock_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	_ "modernc.org/sqlite"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/sqlguard"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

// connect is what a program does at its start: one client and one session, for all its locks. Here etcd runs inside the
// test.
func connect(owner string) (*session.Session, func()) {
	client, err := clientv3.New(clientv3.Config{Endpoints: cluster.Endpoints()})
	if err != nil {
		log.Fatal(err)
	}
	s, err := session.New(context.Background(), client, &session.Options{Owner: owner})
	if err != nil {
		log.Fatal(err)
	}
	return s, func() {
		if err := errors.Join(s.Close(), client.Close()); err != nil {
			log.Print(err)
		}
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// A guarded write: the lock says whose turn it is, and the database refuses whoever comes too late.
func ExampleMutex_Do() {
	ctx := context.Background()
	s, disconnect := connect("payer")
	defer disconnect()
	dir, err := os.MkdirTemp("", "example-")
	check(err)
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite", filepath.Join(dir, "bank.db")+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	check(err)
	defer db.Close()
	_, err = db.ExecContext(ctx, "CREATE TABLE account (id, balance); INSERT INTO account VALUES (1, 100)")
	check(err)
	g, err := sqlguard.New(db, sqlguard.SQLite, nil)
	check(err)
	check(g.Migrate(ctx))

	deposit := func(ctx context.Context, resource string, tok guard.Token) error {
		return g.Do(ctx, resource, tok, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE account SET balance = balance + 50 WHERE id = 1")
			return err
		})
	}

	m := lock.NewMutex(s, "account/1")
	var first guard.Token
	err = m.Do(ctx, func(ctx context.Context, h *lock.Held) error {
		first = h.Token()
		return deposit(ctx, h.Resource(), h.Token())
	})
	fmt.Println("first holder:", err)
	err = m.Do(ctx, func(ctx context.Context, h *lock.Held) error {
		return deposit(ctx, h.Resource(), h.Token())
	})
	fmt.Println("second holder:", err)

	// The first one again, as if it had been paused before its last write.
	err = deposit(ctx, "account/1", first)
	fmt.Println("first holder, late: refused as stale:", errors.Is(err, guard.ErrStale))

	var balance int
	check(db.QueryRowContext(ctx, "SELECT balance FROM account").Scan(&balance))
	fmt.Println("balance:", balance)
	// Output:
	// first holder: <nil>
	// second holder: <nil>
	// first holder, late: refused as stale: true
	// balance: 200
}

// Where Do does not fit, take the lock and give it back yourself. Each holder's token is larger than that of the one before.
func ExampleMutex_Lock() {
	s, disconnect := connect("worker")
	defer disconnect()
	m := lock.NewMutex(s, "report")

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second) // bounds the wait, not the hold
	defer cancel()
	h, err := m.Lock(ctx)
	check(err)
	first := h.Token()
	check(h.Unlock())

	h, err = m.Lock(ctx)
	check(err)
	fmt.Println("a later token is larger:", h.Token() > first)
	check(h.Unlock())
	// Output: a later token is larger: true
}

// The error names the holder.
func ExampleMutex_TryLock() {
	ctx := context.Background()
	nightly, disconnect := connect("the nightly job")
	defer disconnect()
	h, err := lock.NewMutex(nightly, "report").Lock(ctx)
	check(err)
	defer h.Unlock()

	other, disconnect := connect("somebody at a terminal")
	defer disconnect()
	_, err = lock.NewMutex(other, "report").TryLock(ctx)
	var locked *lock.LockedError
	if errors.As(err, &locked) {
		fmt.Println("held by", locked.Holder.Owner)
		fmt.Println("with the holder's token:", locked.Holder.Token == h.Token())
	}
	// Output:
	// held by the nightly job
	// with the holder's token: true
}

// While a program moves from etcd's own mutex to this one, its old and new instances exclude each other, and their tokens
// are of one kind: the old ones fence with their key's create revision.
func ExampleNewMutexAt() {
	ctx := context.Background()
	s, disconnect := connect("new")
	defer disconnect()

	oldSession, err := concurrency.NewSession(s.Client(), concurrency.WithTTL(15))
	check(err)
	defer oldSession.Close()
	oldMutex := concurrency.NewMutex(oldSession, "/jobs/report")
	check(oldMutex.Lock(ctx))
	resp, err := s.Client().Get(ctx, oldMutex.Key())
	check(err)
	oldToken := guard.Token(resp.Kvs[0].CreateRevision)

	newMutex := lock.NewMutexAt(s, "/jobs/report")
	_, err = newMutex.TryLock(ctx)
	fmt.Println("excluded by the old one:", errors.Is(err, lock.ErrLocked))

	check(oldMutex.Unlock(ctx))
	h, err := newMutex.Lock(ctx)
	check(err)
	fmt.Println("token larger than the old one's:", h.Token() > oldToken)
	check(h.Unlock())
	// Output:
	// excluded by the old one: true
	// token larger than the old one's: true
}

// Long work looks before each step, so that it stops soon after a loss. What is under way at the moment of the loss is the
// guard's business.
func ExampleHeld_Err() {
	s, disconnect := connect("worker")
	defer disconnect()
	h, err := lock.NewMutex(s, "import").Lock(context.Background())
	check(err)

	for step := 1; ; step++ {
		if err := h.Err(); err != nil {
			fmt.Println("stopped before step", step)
			fmt.Println("lost:", errors.Is(err, lock.ErrLost))
			fmt.Println("because the session was closed:", errors.Is(err, session.ErrClosed))
			break
		}
		if step == 3 {
			check(s.Close()) // or the network was away for longer than the lease
		}
	}
	// Output:
	// stopped before step 4
	// lost: true
	// because the session was closed: true
}

// One stuck job does not hold up the others for as long as its process lives.
func ExampleHeld_Limit() {
	s, disconnect := connect("worker")
	defer disconnect()
	m := lock.NewMutex(s, "import")
	err := m.Do(context.Background(), func(ctx context.Context, h *lock.Held) error {
		h.Limit(10 * time.Millisecond)
		<-ctx.Done() // stuck, but it listens to its context
		return context.Cause(ctx)
	})
	fmt.Println("lost:", errors.Is(err, lock.ErrLost))
	fmt.Println("by its limit:", errors.Is(err, lock.ErrMaxHold))
	// Output:
	// lost: true
	// by its limit: true
}

// What is stored in etcd itself can be written on the condition that the lock is held, in one transaction.
func ExampleHeld_Key() {
	ctx := context.Background()
	s, disconnect := connect("configurator")
	defer disconnect()
	h, err := lock.NewMutex(s, "config").Lock(ctx)
	check(err)

	write := func(value string) bool {
		resp, err := s.Client().Txn(ctx).
			If(clientv3.Compare(clientv3.ModRevision(h.Key()), "=", int64(h.Token()))).
			Then(clientv3.OpPut("/config", value)).
			Commit()
		check(err)
		return resp.Succeeded
	}
	fmt.Println("while it is held:", write("a"))
	check(h.Unlock())
	fmt.Println("after Unlock:", write("b"))
	// Output:
	// while it is held: true
	// after Unlock: false
}

// Who holds a lock and who waits, for people.
func ExampleMutex_Status() {
	ctx := context.Background()
	s, disconnect := connect("the nightly job")
	defer disconnect()
	m := lock.NewMutex(s, "report")
	h, err := m.Lock(ctx)
	check(err)
	defer h.Unlock()

	status, err := m.Status(ctx)
	check(err)
	for _, e := range status.Holders {
		fmt.Println(status.Name, "is held by", e.Owner)
	}
	fmt.Println(len(status.Waiters), "waiting")
	// Output:
	// report is held by the nightly job
	// 0 waiting
}
