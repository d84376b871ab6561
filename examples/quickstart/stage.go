//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/fencedlock/fencedlock/guard/sqlguard"
)

const (
	opening  = 100 // the balance at the beginning
	deposit  = 50  // is what A adds
	withdraw = 30  // is what B takes away
)

// stage is where the story is told.
type stage struct {
	began time.Time
	dir   string
	etcd  []string
}

// say prints a line of the timeline.
func (s *stage) say(who, format string, args ...any) {
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "\n               ")
	fmt.Printf("%6.2f s  %1s  %s\n", time.Since(s.began).Seconds(), who, text)
}

func (s *stage) withGuard(ctx context.Context) error {
	fmt.Print("\nWITH THE GUARD: the write carries the token, and the database refuses one that is too low.\n\n")
	balance, err := s.tell(ctx, "refused", true)
	if err != nil {
		return err
	}
	if balance != opening-withdraw {
		return fmt.Errorf("the balance is %d, though A was refused and B's write makes it %d", balance, opening-withdraw)
	}
	s.say("", "The balance is %d: RIGHT. B's withdrawal stands, and A knows that its deposit was not made.", balance)
	return nil
}

func (s *stage) withoutGuard(ctx context.Context) error {
	fmt.Print("\nWITHOUT THE GUARD: the same lock, the same pause, and a write that nobody checks.\n\n")
	balance, err := s.tell(ctx, "written", false)
	if err != nil {
		return err
	}
	if balance != opening+deposit {
		return fmt.Errorf("the balance is %d, though A's late write made it %d", balance, opening+deposit)
	}
	s.say("", "The balance is %d: WRONG. %d - %d + %d is %d; A's late write has wiped out B's withdrawal.",
		balance, opening, withdraw, deposit, opening-withdraw+deposit)
	return nil
}

// tell has A's write end in the given way, and returns the balance after it.
func (s *stage) tell(ctx context.Context, want string, guarded bool) (balance int, err error) {
	account := filepath.Join(s.dir, want+".db")
	if err := newAccount(ctx, account); err != nil {
		return 0, err
	}
	s.say("", "The balance is %d. A is to deposit %d, B to withdraw %d.", opening, deposit, withdraw)

	a, err := start(ctx, job{Name: "A", Etcd: s.etcd, Account: account, Amount: deposit, Guarded: guarded})
	if err != nil {
		return 0, err
	}
	defer a.end()
	if err := s.hear(ctx, a, "holds", "ready"); err != nil {
		return 0, err
	}
	if err := a.signal(syscall.SIGSTOP); err != nil {
		return 0, err
	}
	s.say("A", "is stopped (SIGSTOP to process %d), as if its machine froze; its lease lasts %v", a.cmd.Process.Pid, ttl)

	b, err := start(ctx, job{Name: "B", Etcd: s.etcd, Account: account, Amount: -withdraw, Guarded: guarded})
	if err != nil {
		return 0, err
	}
	defer b.end()
	s.say("B", "wants the lock (process %d) and has to wait", b.cmd.Process.Pid)
	if err := s.hear(ctx, b, "holds", "ready"); err != nil {
		return 0, err
	}
	if err := b.goOn(); err != nil {
		return 0, err
	}
	if err := s.hear(ctx, b, "written", "released"); err != nil {
		return 0, err
	}
	if err := b.wait(ctx); err != nil {
		return 0, err
	}

	if err := errors.Join(a.goOn(), a.signal(syscall.SIGCONT)); err != nil {
		return 0, err
	}
	s.say("A", "is continued, and does not know that time has passed")
	if err := s.hear(ctx, a, want, "lost"); err != nil {
		return 0, err
	}
	if err := a.wait(ctx); err != nil {
		return 0, err
	}

	db, err := openAccount(account)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	return readBalance(ctx, db)
}

// hear waits for these steps of a worker, in this order, and prints what it tells about them.
func (s *stage) hear(ctx context.Context, p *process, steps ...string) error {
	for _, want := range steps {
		e, err := p.next(ctx)
		if err != nil {
			return fmt.Errorf("waiting for the step %q: %w", want, err)
		}
		s.say(p.name, "%s", e.Text)
		if e.Step != want {
			return fmt.Errorf("worker %s should have come to the step %q, and came to %q", p.name, want, e.Step)
		}
	}
	return nil
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
