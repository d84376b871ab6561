package sqlguard_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/sqlguard"
)

// openExample opens a new SQLite file with one account of 100.
func openExample() (db *sql.DB, remove func()) {
	dir, err := os.MkdirTemp("", "sqlguard-example-")
	if err != nil {
		log.Fatal(err)
	}
	db, err = sql.Open("sqlite", "file:"+filepath.Join(dir, "bank.db")+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := db.Exec("CREATE TABLE account (id TEXT PRIMARY KEY, balance INTEGER); INSERT INTO account VALUES ('alice', 100)"); err != nil {
		log.Fatal(err)
	}
	return db, func() { _ = db.Close(); _ = os.RemoveAll(dir) }
}

// The holder with token 7 is paused; its successor with token 9 withdraws first. The late withdrawal is refused.
func ExampleGuard_Do() {
	ctx := context.Background()
	db, remove := openExample()
	defer remove()
	g, err := sqlguard.New(db, sqlguard.SQLite, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := g.Migrate(ctx); err != nil {
		log.Fatal(err)
	}
	withdraw := func(tok guard.Token) error {
		return g.Do(ctx, "account/alice", tok, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE account SET balance = balance - 10 WHERE id = 'alice'")
			return err
		})
	}
	fmt.Println(withdraw(9))
	err = withdraw(7)
	fmt.Println(errors.Is(err, guard.ErrStale), err)
	var balance int
	if err := db.QueryRow("SELECT balance FROM account").Scan(&balance); err != nil {
		log.Fatal(err)
	}
	fmt.Println(balance)
	// Output:
	// <nil>
	// true guard: stale token 7 for "account/alice": 9 has been seen, so a newer holder is at work; stop writing
	// 90
}

// Check guards a transaction that you begin and commit yourself.
func ExampleGuard_Check() {
	ctx := context.Background()
	db, remove := openExample()
	defer remove()
	g, err := sqlguard.New(db, sqlguard.SQLite, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := g.Migrate(ctx); err != nil {
		log.Fatal(err)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback()
	if err := g.Check(ctx, tx, "account/alice", 9); err != nil { // first of all
		log.Fatal(err)
	}
	if _, err := tx.ExecContext(ctx, "UPDATE account SET balance = 0 WHERE id = 'alice'"); err != nil {
		log.Fatal(err)
	}
	fmt.Println(tx.Commit())
	fmt.Println(g.Highest(ctx, "account/alice"))
	// Output:
	// <nil>
	// 9 <nil>
}

// A new holder seals before it reads, so that what it reads stays as it is.
func ExampleGuard_Seal() {
	ctx := context.Background()
	db, remove := openExample()
	defer remove()
	g, err := sqlguard.New(db, sqlguard.SQLite, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := g.Migrate(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(g.Seal(ctx, "account/alice", 9))
	fmt.Println(errors.Is(g.Seal(ctx, "account/alice", 7), guard.ErrStale))
	// Output:
	// <nil>
	// true
}

// A payment that is run again, by whoever it is, is made once.
func ExampleGuard_Once() {
	ctx := context.Background()
	db, remove := openExample()
	defer remove()
	g, err := sqlguard.New(db, sqlguard.SQLite, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := g.Migrate(ctx); err != nil {
		log.Fatal(err)
	}
	pay := func(tok guard.Token, id string) error {
		return g.Do(ctx, "account/alice", tok, func(ctx context.Context, tx *sql.Tx) error {
			first, err := g.Once(ctx, tx, "account/alice", id)
			if err != nil || !first {
				return err
			}
			_, err = tx.ExecContext(ctx, "UPDATE account SET balance = balance - 10 WHERE id = 'alice'")
			return err
		})
	}
	fmt.Println(pay(7, "payment 1"), pay(7, "payment 1"), pay(9, "payment 1"), pay(9, "payment 2"))
	var balance int
	if err := db.QueryRow("SELECT balance FROM account").Scan(&balance); err != nil {
		log.Fatal(err)
	}
	fmt.Println(balance)
	// Output:
	// <nil> <nil> <nil> <nil>
	// 80
}
