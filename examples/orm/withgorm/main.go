// Withgorm guards a transaction of gorm: Check runs in the *sql.Tx that gorm has begun.
//
//	go run ./withgorm
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

	"github.com/libtnb/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/sqlguard"
)

// Account is a row of the guarded table.
type Account struct {
	ID      string `gorm:"primaryKey"`
	Balance int
}

// sqlTx returns the transaction that gorm works in. It is an error outside of one, where nothing could be guarded.
func sqlTx(tx *gorm.DB) (*sql.Tx, error) {
	pool := tx.Statement.ConnPool
	if p, ok := pool.(*gorm.PreparedStmtTX); ok { // gorm.Config.PrepareStmt
		pool = p.Tx
	}
	t, ok := pool.(*sql.Tx)
	if !ok {
		return nil, fmt.Errorf("gorm is in no transaction of database/sql, but in a %T", pool)
	}
	return t, nil
}

// withdraw takes 10 from the account, as the holder of the account's lock with this token. It must not be called inside
// another Transaction: gorm would make it a savepoint, where a check does not hold.
//
// Unlike Guard.Do, gorm neither runs it again after a conflict with another transaction, nor tells an error of COMMIT, which
// leaves open whether the withdrawal is stored, from one before. Where that matters, record the operation by Guard.Once
// after the check; then an error other than guard.ErrStale may be met by calling withdraw again with the same token.
func withdraw(ctx context.Context, db *gorm.DB, g *sqlguard.Guard, id string, tok guard.Token) error {
	return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		t, err := sqlTx(tx)
		if err != nil {
			return err
		}
		if err := g.Check(ctx, t, "account/"+id, tok); err != nil { // first of all
			return err
		}
		return tx.Model(&Account{}).Where("id = ?", id).Update("balance", gorm.Expr("balance - 10")).Error
	})
}

func run(ctx context.Context, out io.Writer, file string, prepare bool) (failed error) {
	db, err := gorm.Open(sqlite.Open("file:"+file+"?_txlock=immediate&_pragma=busy_timeout(5000)"),
		&gorm.Config{PrepareStmt: prepare, Logger: logger.Default.LogMode(logger.Silent)})
	if err != nil {
		return err
	}
	pool, err := db.DB()
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, pool.Close()) }()
	g, err := sqlguard.New(pool, sqlguard.SQLite, nil)
	if err != nil {
		return err
	}
	if err := errors.Join(g.Migrate(ctx), db.AutoMigrate(&Account{}), db.Create(&Account{ID: "alice", Balance: 100}).Error); err != nil {
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
	var a Account
	if err := db.First(&a, "id = ?", "alice").Error; err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, "balance:", a.Balance)
	return err
}

func main() {
	dir, err := os.MkdirTemp("", "withgorm-")
	if err != nil {
		log.Fatal(err)
	}
	err = run(context.Background(), os.Stdout, filepath.Join(dir, "bank.db"), false)
	if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
		log.Fatal(err)
	}
}
