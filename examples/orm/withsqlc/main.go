// Withsqlc guards queries as sqlc generates them: they are bound to the transaction that has passed Check. With sqlc's
// output for pgx it is the same with package pgxguard.
//
//	go run ./withsqlc
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite"

	"github.com/fencedlock/fencedlock/examples/orm/withsqlc/bank"
	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/sqlguard"
)

// withdraw takes 10 from the account, as the holder of the account's lock with this token, in a transaction of its own. An
// error of Commit leaves open whether the withdrawal is stored, and a conflict is the caller's to meet: see withdrawByDo.
func withdraw(ctx context.Context, db *sql.DB, g *sqlguard.Guard, id string, tok guard.Token) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := g.Check(ctx, tx, "account/"+id, tok); err != nil { // first of all
		return err
	}
	if err := bank.New(db).WithTx(tx).Withdraw(ctx, bank.WithdrawParams{Amount: 10, ID: id}); err != nil {
		return err
	}
	return tx.Commit()
}

// withdrawByDo lets the guard begin, check and commit. It also tells an unknown outcome from a refusal, and runs again
// after conflicts.
func withdrawByDo(ctx context.Context, db *sql.DB, g *sqlguard.Guard, id string, tok guard.Token) error {
	return g.Do(ctx, "account/"+id, tok, func(ctx context.Context, tx *sql.Tx) error {
		return bank.New(tx).Withdraw(ctx, bank.WithdrawParams{Amount: 10, ID: id})
	})
}

type way func(context.Context, *sql.DB, *sqlguard.Guard, string, guard.Token) error

func run(ctx context.Context, out io.Writer, file string, withdraw way) (failed error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, db.Close()) }()
	g, err := sqlguard.New(db, sqlguard.SQLite, nil)
	if err != nil {
		return err
	}
	if err := g.Migrate(ctx); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, "CREATE TABLE account (id TEXT PRIMARY KEY, balance INTEGER); INSERT INTO account VALUES ('alice', 100)"); err != nil {
		return err
	}
	// The holder with token 7 is paused, its successor with token 9 comes first.
	for _, tok := range []guard.Token{9, 7} {
		err := withdraw(ctx, db, g, "alice", tok)
		fmt.Fprintf(out, "token %d: %v\n", tok, err)
		if err != nil && !errors.Is(err, guard.ErrStale) {
			return err
		}
	}
	balance, err := bank.New(db).Balance(ctx, "alice")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, "balance:", balance)
	return err
}

func main() {
	dir, err := os.MkdirTemp("", "withsqlc-")
	if err != nil {
		log.Fatal(err)
	}
	err = run(context.Background(), os.Stdout, filepath.Join(dir, "bank.db"), withdraw)
	if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
		log.Fatal(err)
	}
}
