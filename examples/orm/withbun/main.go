// Withbun guards a transaction of bun: Check runs in the *sql.Tx that a bun.Tx embeds. It is the same with sqlx, whose
// Tx embeds one, too.
//
//	go run ./withbun
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

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	_ "modernc.org/sqlite"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/sqlguard"
)

// Account is a row of the guarded table.
type Account struct {
	ID      string `bun:",pk"`
	Balance int
}

// withdraw takes 10 from the account, as the holder of the account's lock with this token. db is no bun.Tx: the RunInTx
// of one makes a savepoint, where a check does not hold.
//
// Unlike Guard.Do, bun neither runs it again after a conflict with another transaction, nor tells an error of COMMIT, which
// leaves open whether the withdrawal is stored, from one before. Where that matters, record the operation by Guard.Once
// after the check; then an error other than guard.ErrStale may be met by calling withdraw again with the same token.
func withdraw(ctx context.Context, db *bun.DB, g *sqlguard.Guard, id string, tok guard.Token) error {
	return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		if err := g.Check(ctx, tx.Tx, "account/"+id, tok); err != nil { // first of all
			return err
		}
		_, err := tx.NewUpdate().Model((*Account)(nil)).Set("balance = balance - 10").Where("id = ?", id).Exec(ctx)
		return err
	})
}

func run(ctx context.Context, out io.Writer, file string) (failed error) {
	pool, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	if err != nil {
		return err
	}
	db := bun.NewDB(pool, sqlitedialect.New())
	defer func() { failed = errors.Join(failed, db.Close()) }()
	g, err := sqlguard.New(pool, sqlguard.SQLite, nil)
	if err != nil {
		return err
	}
	if err := g.Migrate(ctx); err != nil {
		return err
	}
	if _, err := db.NewCreateTable().Model((*Account)(nil)).Exec(ctx); err != nil {
		return err
	}
	if _, err := db.NewInsert().Model(&Account{ID: "alice", Balance: 100}).Exec(ctx); err != nil {
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
	a := Account{ID: "alice"}
	if err := db.NewSelect().Model(&a).WherePK().Scan(ctx); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, "balance:", a.Balance)
	return err
}

func main() {
	dir, err := os.MkdirTemp("", "withbun-")
	if err != nil {
		log.Fatal(err)
	}
	err = run(context.Background(), os.Stdout, filepath.Join(dir, "bank.db"))
	if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
		log.Fatal(err)
	}
}
