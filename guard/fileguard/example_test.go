package fileguard_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/fileguard"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

func openExample() (g *fileguard.Guard, dir string) {
	dir, err := os.MkdirTemp("", "fileguard-example-")
	if err != nil {
		log.Fatal(err)
	}
	g, err = fileguard.New(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	return g, dir
}

// The token comes from the lock, which is in etcd.
func ExampleNew_withLock() {
	ctx := context.Background()
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{"https://etcd.example.com:2379"}})
	if err != nil {
		log.Fatal(err)
	}
	defer etcd.Close()
	s, err := session.New(ctx, etcd, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	g, err := fileguard.New("/var/lib/accounts", nil)
	if err != nil {
		log.Fatal(err)
	}
	err = lock.NewMutex(s, "account/alice").Do(ctx, func(ctx context.Context, h *lock.Held) error {
		return g.WriteFile(ctx, h.Resource(), h.Token(), "alice.json", []byte(`{"balance": 90}`), 0o644)
	})
	if err != nil {
		log.Print(err)
	}
}

// The holder with token 7 is paused; its successor with token 9 writes first. The late write is refused. Everybody reads
// the file as ever.
func ExampleGuard_WriteFile() {
	ctx := context.Background()
	g, dir := openExample()
	defer os.RemoveAll(dir)
	fmt.Println(g.WriteFile(ctx, "account/alice", 9, "alice.json", []byte(`{"balance": 90}`), 0o644))
	err := g.WriteFile(ctx, "account/alice", 7, "alice.json", []byte(`{"balance": 80}`), 0o644)
	fmt.Println(errors.Is(err, guard.ErrStale), err)
	b, err := os.ReadFile(filepath.Join(dir, "alice.json"))
	fmt.Println(string(b), err)
	// Output:
	// <nil>
	// true guard: stale token 7 for "account/alice": 9 has been seen, so a newer holder is at work; stop writing
	// {"balance": 90} <nil>
}

// A long report is written as it is made. Nobody sees it before it is complete.
func ExampleGuard_Write() {
	ctx := context.Background()
	g, dir := openExample()
	defer os.RemoveAll(dir)
	err := g.Write(ctx, "report", 9, "report.txt", 0o644, func(w io.Writer) error {
		b := bufio.NewWriter(w)
		for i := range 100_000 {
			fmt.Fprintln(b, "line", i)
		}
		return b.Flush()
	})
	fmt.Println(err)
	info, err := os.Stat(filepath.Join(dir, "report.txt"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Size())
	// Output:
	// <nil>
	// 1088890
}

// A new holder seals before it reads, so that what it reads stays as it is.
func ExampleGuard_Seal() {
	ctx := context.Background()
	g, dir := openExample()
	defer os.RemoveAll(dir)
	fmt.Println(g.Seal(ctx, "account/alice", 9))
	fmt.Println(errors.Is(g.Remove(ctx, "account/alice", 7, "alice.json"), guard.ErrStale))
	fmt.Println(g.Highest(ctx, "account/alice"))
	// Output:
	// <nil>
	// true
	// 9 <nil>
}
