//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
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
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "\n                    ")
	fmt.Printf("%6.2f s  %6s  %s\n", time.Since(s.began).Seconds(), who, text)
}

func (s *stage) withGuard(ctx context.Context) error {
	fmt.Print("\nWITH THE GUARD: the request carries the token, and the bank's database refuses one that is too low.\n\n")
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
	fmt.Print("\nWITHOUT THE GUARD: the same lock, the same pause, and a request that nobody checks.\n\n")
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
	server := job{Name: "server", File: filepath.Join(s.dir, want+".db")}
	bank, err := s.startServer(ctx, server, listener, url)
	if err != nil {
		return 0, err
	}
	defer func() { bank.end() }()
	s.say("server", "serves accounts at %s (process %d)", url, bank.cmd.Process.Pid)
	s.say("", "The balance is %d. A is to deposit %d, B to withdraw %d.", opening, deposit, withdraw)

	a, err := start(ctx, job{Name: "A", Etcd: s.etcd, URL: url, Amount: deposit, Guarded: guarded})
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

	b, err := start(ctx, job{Name: "B", Etcd: s.etcd, URL: url, Amount: -withdraw, Guarded: guarded})
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

	bank.end()
	s.say("server", "is killed, and with it all it has kept in memory")
	if bank, err = s.startServer(ctx, server, listener, url); err != nil {
		return 0, err
	}
	s.say("server", "is started again on the same database (process %d)", bank.cmd.Process.Pid)

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
	return readBalance(ctx, url)
}

// startServer returns when the server answers.
func (s *stage) startServer(ctx context.Context, j job, listener *os.File, url string) (*process, error) {
	p, err := start(ctx, j, listener)
	if err != nil {
		return nil, err
	}
	// Whoever connects waits in the listener's queue until the server is there; if it dies, nobody takes it from there.
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("the server has not answered for %v", patience))
	defer cancel()
	go func() {
		select {
		case <-p.events: // it tells nothing, so this is its end
			cancel()
		case <-ctx.Done():
		}
	}()
	if _, err := readBalance(ctx, url); err != nil {
		p.end()
		return nil, fmt.Errorf("the server does not answer: %w (it ended: %v)", err, p.err)
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

// hear waits for these steps of a client, in this order, and prints what it tells about them.
func (s *stage) hear(ctx context.Context, p *process, steps ...string) error {
	for _, want := range steps {
		e, err := p.next(ctx)
		if err != nil {
			return fmt.Errorf("waiting for the step %q: %w", want, err)
		}
		s.say(p.name, "%s", e.Text)
		if e.Step != want {
			return fmt.Errorf("%s should have come to the step %q, and came to %q", p.name, want, e.Step)
		}
	}
	return nil
}
