//go:build unix

package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/fencedlock/fencedlock/examples/internal/story"
	"github.com/fencedlock/fencedlock/guard/sqlguard"
)

const (
	opening  = 100 // the balance at the beginning
	deposit  = 50  // is what A adds
	withdraw = 30  // is what B takes away
)

// bothHalves returns nil only if both went as told.
func bothHalves(ctx context.Context, s *story.Stage) error {
	s.Width = 1
	s.Say("", "etcd runs at %s, the account is a file below %s", s.Etcd[0], s.Dir)
	if err := withGuard(ctx, s); err != nil {
		return fmt.Errorf("with the guard: %w", err)
	}
	if err := withoutGuard(ctx, s); err != nil {
		return fmt.Errorf("without the guard: %w", err)
	}
	fmt.Print("\nBoth halves went as told. The lock was the same and worked as it should in both;\n" +
		"what kept the balance right was the guard. A worker's program: examples/quickstart/worker.go\n")
	return nil
}

func withGuard(ctx context.Context, s *story.Stage) error {
	fmt.Print("\nWITH THE GUARD: the write carries the token, and the database refuses one that is too low.\n\n")
	balance, err := tell(ctx, s, "refused", true)
	if err != nil {
		return err
	}
	if balance != opening-withdraw {
		return fmt.Errorf("the balance is %d, though A was refused and B's write makes it %d", balance, opening-withdraw)
	}
	s.Say("", "The balance is %d: RIGHT. B's withdrawal stands, and A knows that its deposit was not made.", balance)
	return nil
}

func withoutGuard(ctx context.Context, s *story.Stage) error {
	fmt.Print("\nWITHOUT THE GUARD: the same lock, the same pause, and a write that nobody checks.\n\n")
	balance, err := tell(ctx, s, "written", false)
	if err != nil {
		return err
	}
	if balance != opening+deposit {
		return fmt.Errorf("the balance is %d, though A's late write made it %d", balance, opening+deposit)
	}
	s.Say("", "The balance is %d: WRONG. %d - %d + %d is %d; A's late write has wiped out B's withdrawal.",
		balance, opening, withdraw, deposit, opening-withdraw+deposit)
	return nil
}

// tell has A's write end in the given way, and returns the balance after it.
func tell(ctx context.Context, s *story.Stage, want string, guarded bool) (balance int, err error) {
	account := filepath.Join(s.Dir, want+".db")
	if err := newAccount(ctx, account); err != nil {
		return 0, err
	}
	s.Say("", "The balance is %d. A is to deposit %d, B to withdraw %d.", opening, deposit, withdraw)

	err = s.LateWriter(ctx, ttl,
		job{Name: "A", Etcd: s.Etcd, Account: account, Amount: deposit, Guarded: guarded},
		job{Name: "B", Etcd: s.Etcd, Account: account, Amount: -withdraw, Guarded: guarded},
		func() error { return nil }, want)
	if err != nil {
		return 0, err
	}

	db, err := openAccount(account)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	return readBalance(ctx, db)
}

// newAccount makes the database file.
func newAccount(ctx context.Context, file string) error {
	db, err := openAccount(file)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, "CREATE TABLE account (balance INTEGER NOT NULL); INSERT INTO account VALUES (?)", opening)
	if err != nil {
		return fmt.Errorf("making the account: %w", err)
	}
	g, err := sqlguard.New(db, sqlguard.SQLite, nil)
	if err != nil {
		return err
	}
	return g.Migrate(ctx)
}
