//go:build unix

// Service shows in ten seconds how a token travels: clients hold a lock in etcd and write through a server that other
// programs share, and the server's database refuses the client that comes too late. One client is stopped for longer than its
// lock lasts; its successor writes, the server is killed and started again, and then the first client goes on. It is told
// twice, with the guard and without it.
//
//	go run ./examples/service
//
// It needs nothing: etcd runs inside it, the accounts are an SQLite file in a temporary folder, and both are gone at the end.
// What programs of your own would look like is in server.go and client.go; the rest is the stage.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
)

func main() {
	if encoded, ok := os.LookupEnv(jobVariable); ok {
		exit(jobMain(encoded))
	}
	// Whatever ends the program, its processes, etcd and the files are to go with it: SIGPIPE is for `service | head`.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	defer stop()
	err := run(ctx)
	if ctx.Err() != nil {
		err = fmt.Errorf("stopped before the end: %w", context.Cause(ctx))
	}
	exit(err)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "service: %v\n", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run returns nil only if both halves went as told.
func run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "service-")
	if err != nil {
		return fmt.Errorf("no temporary folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	s := stage{began: time.Now(), dir: dir}
	etcd, err := etcdtest.New(ctx, &etcdtest.Options{Dir: dir})
	if err != nil {
		return fmt.Errorf("etcd did not start: %w", err)
	}
	defer func() { err = errors.Join(err, etcd.Close()) }()
	s.etcd = etcd.Endpoints()

	if err := s.withGuard(ctx); err != nil {
		return fmt.Errorf("with the guard: %w", err)
	}
	if err := s.withoutGuard(ctx); err != nil {
		return fmt.Errorf("without the guard: %w", err)
	}
	fmt.Print("\nBoth halves went as told. The lock, the token and the server were the same in both; what kept the balance right was\n" +
		"the guard in the server's database. The programs: examples/service/server.go and client.go\n")
	return nil
}
