//go:build unix

// Quickstart shows in ten seconds what a lock can do and what it cannot: two processes share one account, one of them
// is stopped for longer than its lock lasts, and then makes the write that it had prepared. It is told twice, with the
// guard and without it.
//
//	go run ./examples/quickstart
//
// It needs nothing: etcd runs inside it, the account is an SQLite file in a temporary folder, and both are gone at the
// end. What a program of your own would look like is in worker.go; the rest is the stage.
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
	if job, ok := os.LookupEnv(jobVariable); ok {
		exit(workerMain(job))
	}
	// Whatever ends the program, the workers, etcd and the files are to go with it: SIGPIPE is for `quickstart | head`.
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
		fmt.Fprintf(os.Stderr, "quickstart: %v\n", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run returns nil only if both halves went as told.
func run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "quickstart-")
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
	s.say("", "etcd runs at %s, the account is a file below %s", s.etcd[0], dir)

	if err := s.withGuard(ctx); err != nil {
		return fmt.Errorf("with the guard: %w", err)
	}
	if err := s.withoutGuard(ctx); err != nil {
		return fmt.Errorf("without the guard: %w", err)
	}
	fmt.Print("\nBoth halves went as told. The lock was the same and worked as it should in both;\n" +
		"what kept the balance right was the guard. A worker's program: examples/quickstart/worker.go\n")
	return nil
}
