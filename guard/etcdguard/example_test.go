package etcdguard_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/etcdguard"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

// etcd returns a client of an empty etcd.
func etcd() (client *clientv3.Client, stop func()) {
	client, err := cluster.NewClient()
	if err != nil {
		log.Fatal(err)
	}
	// Examples run one after the other, and after the tests.
	return client, func() {
		if _, err := client.Delete(context.Background(), "", clientv3.WithPrefix()); err != nil {
			log.Fatal(err)
		}
		_ = client.Close()
	}
}

// A program connects once. Keepalives tell a dead connection, and each call has a deadline.
func ExampleNew() {
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            []string{"https://etcd-1.example.com:2379", "https://etcd-2.example.com:2379", "https://etcd-3.example.com:2379"},
		DialKeepAliveTime:    5 * time.Second,
		DialKeepAliveTimeout: 3 * time.Second,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	g, err := etcdguard.New(client, nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	fmt.Println(g.Highest(ctx, "page"))
}

// The holder with token 7 is paused; its successor with token 9 writes first. The late write is refused.
func ExampleGuard_Do() {
	ctx := context.Background()
	client, stop := etcd()
	defer stop()
	g, err := etcdguard.New(client, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(g.Do(ctx, "page", 9, clientv3.OpPut("page/title", "new"), clientv3.OpPut("page/body", "new")))
	err = g.Do(ctx, "page", 7, clientv3.OpPut("page/title", "old"))
	fmt.Println(errors.Is(err, guard.ErrStale), err)
	title, err := client.Get(ctx, "page/title")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", title.Kvs[0].Value)
	// Output:
	// <nil>
	// true guard: stale token 7 for "page": 9 has been seen, so a newer holder is at work; stop writing
	// new
}

// A new holder seals before it reads, so that what it reads stays as it is until its own write.
func ExampleGuard_Seal() {
	ctx := context.Background()
	client, stop := etcd()
	defer stop()
	s, err := session.New(ctx, client, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	g, err := etcdguard.New(client, nil)
	if err != nil {
		log.Fatal(err)
	}
	err = lock.NewMutex(s, "counter").Do(ctx, func(ctx context.Context, h *lock.Held) error {
		if err := g.Seal(ctx, h.Resource(), h.Token()); err != nil {
			return err
		}
		n, err := client.Get(ctx, "counter")
		if err != nil {
			return err
		}
		return g.Do(ctx, h.Resource(), h.Token(), clientv3.OpPut("counter", fmt.Sprint(n.Count+1)))
	})
	fmt.Println(err)
	// Output: <nil>
}

// Txn returns what the operations found. OpTxn makes one of them depend on a comparison.
func ExampleGuard_Txn() {
	ctx := context.Background()
	client, stop := etcd()
	defer stop()
	g, err := etcdguard.New(client, nil)
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		absent := clientv3.Compare(clientv3.CreateRevision("order/4711"), "=", 0)
		create := clientv3.OpPut("order/4711", "paid")
		resp, err := g.Txn(ctx, "orders", 9, clientv3.OpTxn([]clientv3.Cmp{absent}, []clientv3.Op{create}, nil))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("created:", resp.Responses[0].GetResponseTxn().Succeeded)
	}
	// Output:
	// created: true
	// created: false
}

// Where lock and data are in one cluster, a transaction of one's own can depend on the lock itself.
func ExampleIfHeld() {
	ctx := context.Background()
	client, stop := etcd()
	defer stop()
	s, err := session.New(ctx, client, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	h, err := lock.NewMutex(s, "page").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	put := func(text string) bool {
		resp, err := client.Txn(ctx).If(etcdguard.IfHeld(h.Key(), h.Token())).Then(clientv3.OpPut("page", text)).Commit()
		if err != nil {
			log.Fatal(err)
		}
		return resp.Succeeded
	}
	fmt.Println(put("while it is held"))
	if err := h.Unlock(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(put("late"))
	// Output:
	// true
	// false
}
