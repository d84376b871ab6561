package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

// memoryCommand is the first argument of the process that holds locks, so that the server's memory is not counted.
const memoryCommand = "hold-locks"

// memory measures what a held lock costs its program: heap and stacks.
func (b *bench) memory(ctx context.Context) error {
	cluster, err := etcdtest.New(ctx, &etcdtest.Options{Dir: b.dir})
	if err != nil {
		return err
	}
	perLock := make(map[string]int)
	for _, side := range []string{"theirs", "ours"} {
		out, runErr := holder(ctx, side, b.size.locks, cluster.Endpoints()[0]).Output()
		var failed *exec.ExitError
		if errors.As(runErr, &failed) {
			runErr = fmt.Errorf("%w: %s", runErr, failed.Stderr)
		}
		var n int
		if err = errors.Join(err, runErr); err == nil {
			err = json.Unmarshal(out, &n)
		}
		perLock[side] = n
	}
	if err = errors.Join(err, cluster.Close()); err != nil {
		return err
	}
	const most = 16 << 10
	r := counts(fmt.Sprintf("bytes per held lock, of %d", b.size.locks), perLock["theirs"], perLock["ours"])
	r.target, r.missed = fmt.Sprintf("<= %d", most), perLock["ours"] > most
	b.report(r)
	return nil
}

func holder(ctx context.Context, side string, n int, endpoint string) *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		exe = os.Args[0]
	}
	return exec.CommandContext(ctx, exe, memoryCommand, side, strconv.Itoa(n), endpoint)
}

// holdLocks is the process that holder starts: it prints how many bytes one of n held locks costs.
func holdLocks(ctx context.Context, side, number, endpoint string) error {
	n, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 5 * time.Second})
	if err != nil {
		return err
	}
	defer client.Close()
	take, end, err := taker(ctx, side, client)
	if err != nil {
		return err
	}
	if err := takeMany(ctx, take, "first", 100); err != nil { // connections, streams and pools come into being
		return err
	}
	before := settledMemory()
	if err := takeMany(ctx, take, "held", n); err != nil {
		return err
	}
	fmt.Println(int(settledMemory()-before) / n)
	runtime.KeepAlive(take) // and what it keeps
	return end()
}

// takeMany takes n locks, several at a time.
func takeMany(ctx context.Context, take func(context.Context, string) error, name string, n int) error {
	numbers := make(chan int, n)
	for i := range n {
		numbers <- i
	}
	close(numbers)
	errs := make([]error, 32)
	var wg sync.WaitGroup
	for w := range errs {
		wg.Go(func() {
			for i := range numbers {
				if errs[w] = take(ctx, fmt.Sprintf("%s-%d", name, i)); errs[w] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// taker returns a function that takes a lock and keeps it, and one that ends the session.
func taker(ctx context.Context, side string, client *clientv3.Client) (take func(context.Context, string) error, end func() error, err error) {
	var mu sync.Mutex
	var kept []any // as a program would keep them
	keep := func(held any) {
		mu.Lock()
		defer mu.Unlock()
		kept = append(kept, held)
	}
	if side == "theirs" {
		s, err := concurrency.NewSession(client, concurrency.WithTTL(int(ttl.Seconds())))
		if err != nil {
			return nil, nil, err
		}
		return func(ctx context.Context, name string) error {
			m := concurrency.NewMutex(s, name)
			keep(m)
			return m.Lock(ctx)
		}, s.Close, nil
	}
	s, err := session.New(ctx, client, &session.Options{TTL: ttl})
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context, name string) error {
		h, err := lock.NewMutex(s, name).Lock(ctx)
		keep(h)
		return err
	}, s.Close, nil
}

// settledMemory waits until the number of goroutines has not changed for half a second, and returns the bytes in use.
func settledMemory() int64 {
	last := -1
	for same := 0; same < 10; same++ {
		if now := runtime.NumGoroutine(); now != last {
			last, same = now, 0
		}
		time.Sleep(50 * time.Millisecond)
	}
	runtime.GC()
	runtime.GC() // stacks shrink in one cycle and are freed in the next
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
