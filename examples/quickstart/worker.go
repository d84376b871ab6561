//go:build unix

package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	_ "modernc.org/sqlite" // the driver

	"github.com/fencedlock/fencedlock/examples/internal/story"
	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/sqlguard"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

const ttl = 2 * time.Second

// job is what a worker is told to do.
type job struct {
	Name    string   // of the worker
	Etcd    []string // endpoints
	Account string   // the database file
	Amount  int      // to add to the balance
	Guarded bool
}

// work adds an amount to the balance of the account, under the lock "account/1".
func work(ctx context.Context, j job, say story.Tell) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: j.Etcd, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		return fmt.Errorf("etcd client: %w", err)
	}
	defer client.Close()
	s, err := session.New(ctx, client, &session.Options{TTL: ttl, Owner: "worker " + j.Name})
	if err != nil {
		return err
	}
	defer s.Close()
	db, err := openAccount(j.Account)
	if err != nil {
		return err
	}
	defer db.Close()
	g, err := sqlguard.New(db, sqlguard.SQLite, nil)
	if err != nil {
		return err
	}

	h, err := lock.NewMutex(s, "account/1").Lock(ctx)
	if err != nil {
		return err
	}
	defer h.Unlock() // for the ways out below; a further call is harmless
	say("holds", "has the lock %q with token %d", h.Resource(), int64(h.Token()))

	// Seal, then read: after Seal no older holder can write, so what is read here stays true.
	if j.Guarded {
		if err := g.Seal(ctx, h.Resource(), h.Token()); err != nil {
			return err
		}
	}
	balance, err := readBalance(ctx, db)
	if err != nil {
		return err
	}
	balance += j.Amount
	if err := h.Err(); err != nil { // the last look before the write
		return err
	}
	say("ready", "reads the balance, adds %+d, and is about to write %d", j.Amount, balance)

	// Between the last look and the write anything can happen. Here the process waits to be told to go on, and is
	// stopped meanwhile.
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return fmt.Errorf("nobody said to go on: %w", err)
	}

	// A program of yours hands h.Context() to its write, which then may not even be sent. Here that would hide what the
	// story is about: a write that was under way when the lock was lost.
	write := func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE account SET balance = ?", balance)
		return err
	}
	if j.Guarded {
		err = g.Do(ctx, h.Resource(), h.Token(), write)
	} else {
		err = transact(ctx, db, write)
	}
	switch {
	case errors.Is(err, guard.ErrStale):
		say("refused", "tries to write %d and is REFUSED:\n%v", balance, err)
	case err != nil:
		return err
	default:
		say("written", "writes %d, and the database takes it", balance)
	}

	if err := h.Err(); err != nil {
		say("lost", "looks at its lock again and finds it lost:\n%v", err)
		return nil
	}
	if err := h.Unlock(); err != nil {
		return err
	}
	say("released", "gives the lock back")
	return nil
}

// openAccount opens the database file. Writers wait for each other, see [sqlguard.SQLite].
func openAccount(file string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", file+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	if err != nil {
		return nil, fmt.Errorf("opening the account: %w", err)
	}
	return db, nil
}

func readBalance(ctx context.Context, db *sql.DB) (balance int, err error) {
	if err := db.QueryRowContext(ctx, "SELECT balance FROM account").Scan(&balance); err != nil {
		return 0, fmt.Errorf("reading the balance: %w", err)
	}
	return balance, nil
}

// transact is a transaction as one writes it without a guard.
func transact(ctx context.Context, db *sql.DB, write func(context.Context, *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := write(ctx, tx); err != nil {
		return err
	}
	return tx.Commit()
}
