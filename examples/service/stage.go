//go:build unix

package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/fencedlock/fencedlock/examples/internal/story"
)

const (
	opening  = 100 // the balance at the beginning
	deposit  = 50  // is what A adds
	withdraw = 30  // is what B takes away
)

// bothHalves returns nil only if both went as told.
func bothHalves(ctx context.Context, s *story.Stage) error {
	s.Width = len("server")
	if err := withGuard(ctx, s); err != nil {
		return fmt.Errorf("with the guard: %w", err)
	}
	if err := withoutGuard(ctx, s); err != nil {
		return fmt.Errorf("without the guard: %w", err)
	}
	fmt.Print("\nBoth halves went as told. The lock, the token and the server were the same in both; what kept the balance right was\n" +
		"the guard in the server's database. The programs: examples/service/server.go and client.go\n")
	return nil
}

func withGuard(ctx context.Context, s *story.Stage) error {
	fmt.Print("\nWITH THE GUARD: the request carries the token, and the bank's database refuses one that is too low.\n\n")
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
	fmt.Print("\nWITHOUT THE GUARD: the same lock, the same pause, and a request that nobody checks.\n\n")
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
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	listener, err := l.(*net.TCPListener).File()
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	url := "http://" + l.Addr().String()
	server := job{File: filepath.Join(s.Dir, want+".db")}
	bank, err := startServer(ctx, s, server, listener, url)
	if err != nil {
		return 0, err
	}
	defer func() { bank.End() }()
	s.Say("server", "serves accounts at %s (process %d)", url, bank.PID())
	s.Say("", "The balance is %d. A is to deposit %d, B to withdraw %d.", opening, deposit, withdraw)

	restart := func() (err error) {
		bank.End()
		s.Say("server", "is killed, and with it all it has kept in memory")
		if bank, err = startServer(ctx, s, server, listener, url); err != nil {
			return err
		}
		s.Say("server", "is started again on the same database (process %d)", bank.PID())
		return nil
	}
	err = s.LateWriter(ctx, ttl,
		job{Client: "A", Etcd: s.Etcd, URL: url, Amount: deposit, Guarded: guarded},
		job{Client: "B", Etcd: s.Etcd, URL: url, Amount: -withdraw, Guarded: guarded},
		restart, want)
	if err != nil {
		return 0, err
	}
	return readBalance(ctx, url)
}

// startServer returns when the server answers.
func startServer(ctx context.Context, s *story.Stage, j job, listener *os.File, url string) (*story.Process, error) {
	p, err := s.Start(ctx, "server", j, listener)
	if err != nil {
		return nil, err
	}
	// Whoever connects waits in the listener's queue until the server is there; if it dies, nobody takes it from there.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { cancel(p.Ended(ctx)) }()
	late := time.AfterFunc(story.Patience, func() { cancel(fmt.Errorf("the server has not answered for %v", story.Patience)) })
	defer late.Stop()
	if _, err := readBalance(ctx, url); err != nil {
		defer p.End()
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("the server does not answer: %w", err)
	}
	return p, nil
}

func readBalance(ctx context.Context, url string) (balance int, err error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := request(ctx, client, http.MethodGet, url+"/accounts/1", "")
	if err != nil {
		return 0, err
	}
	_, err = fmt.Sscan(answer, &balance)
	return balance, err
}
