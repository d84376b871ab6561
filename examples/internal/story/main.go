//go:build unix

// Package story is the stage of the examples: it runs their programs in processes of their own, stops and continues these, and
// prints what they tell as a timeline. It shows nothing of the library.
package story

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
)

// Tell says that a process has come to a step, and what is to be printed about it.
type Tell func(step, format string, args ...any)

// Main runs an example and ends the program: tell on a stage with an etcd and an empty folder, both of which are gone
// afterwards, or, in a process that [Stage.Start] started, work on the job given there.
func Main[Job any](name string, work func(context.Context, Job, Tell) error, tell func(context.Context, *Stage) error) {
	if encoded, ok := os.LookupEnv(jobVariable); ok {
		exit(name, runJob(encoded, work))
	}
	// Whatever ends the program, its processes, etcd and the files are to go with it: SIGPIPE is for `quickstart | head`.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	defer stop()
	err := perform(ctx, name, tell)
	if ctx.Err() != nil {
		err = fmt.Errorf("stopped before the end: %w", context.Cause(ctx))
	}
	exit(name, err)
}

func exit(name string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func perform(ctx context.Context, name string, tell func(context.Context, *Stage) error) (err error) {
	dir, err := os.MkdirTemp("", name+"-")
	if err != nil {
		return fmt.Errorf("no temporary folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	etcd, err := etcdtest.New(ctx, &etcdtest.Options{Dir: dir})
	if err != nil {
		return fmt.Errorf("etcd did not start: %w", err)
	}
	defer func() { err = errors.Join(err, etcd.Close()) }()
	return tell(ctx, NewStage(dir, etcd.Endpoints()))
}
