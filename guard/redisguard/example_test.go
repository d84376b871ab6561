//go:build unix

package redisguard_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/redisguard"
	"github.com/fencedlock/fencedlock/internal/redistest"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

// openExample starts a Redis of its own; your program connects to yours.
func openExample() (client *redis.Client, stop func()) {
	server, err := redistest.Open()
	if err != nil {
		log.Fatal(err)
	}
	client = redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true})
	return client, func() { _ = client.Close(); server.Close() }
}

// A program connects once, with ContextTimeoutEnabled, so that the deadlines of its calls hold.
func ExampleNew() {
	client := redis.NewClient(&redis.Options{
		Addr:                  "redis.example.com:6379",
		ContextTimeoutEnabled: true,
	})
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	g, err := redisguard.New(ctx, client, &redisguard.Options{Logger: zap.Must(zap.NewProduction())})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(g.Highest(ctx, "account/alice"))
}

// The token comes from the lock: here the lock is in etcd, and the data in Redis.
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
	client := redis.NewClient(&redis.Options{Addr: "redis.example.com:6379", ContextTimeoutEnabled: true})
	defer client.Close()
	g, err := redisguard.New(ctx, client, nil)
	if err != nil {
		log.Fatal(err)
	}
	err = lock.NewMutex(s, "account/alice").Do(ctx, func(ctx context.Context, h *lock.Held) error {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		return g.Set(ctx, h.Resource(), h.Token(), "90", 0)
	})
	if err != nil {
		log.Print(err)
	}
}

// The holder with token 7 is paused; its successor with token 9 writes first. The late write is refused.
func ExampleGuard_Set() {
	ctx := context.Background()
	client, stop := openExample()
	defer stop()
	g, err := redisguard.New(ctx, client, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(g.Set(ctx, "account/alice", 9, "90", 0))
	err = g.Set(ctx, "account/alice", 7, "110", 0)
	fmt.Println(errors.Is(err, guard.ErrStale), err)
	fmt.Println(g.Get(ctx, "account/alice"))
	// Output:
	// <nil>
	// true guard: stale token 7 for "account/alice": 9 has been seen, so a newer holder is at work; stop writing
	// 90 <nil>
}

// A script of your own runs under the check, in the same atomic step.
func ExampleGuard_Run() {
	ctx := context.Background()
	client, stop := openExample()
	defer stop()
	g, err := redisguard.New(ctx, client, nil)
	if err != nil {
		log.Fatal(err)
	}
	take := redis.NewScript(`
		local left = tonumber(redis.call('GET', KEYS[1]) or '10') - tonumber(ARGV[1])
		if left < 0 then return redis.error_reply('EMPTY not enough left') end
		redis.call('SET', KEYS[1], left)
		return left`)
	stock := []string{g.Key("warehouse/3", "stock")}
	fmt.Println(g.Run(ctx, "warehouse/3", 9, take, stock, 4).Int())
	fmt.Println(g.Run(ctx, "warehouse/3", 9, take, stock, 7).Err())
	fmt.Println(errors.Is(g.Run(ctx, "warehouse/3", 7, take, stock, 1).Err(), guard.ErrStale))
	// Output:
	// 6 <nil>
	// EMPTY not enough left
	// true
}

// A new holder seals before it reads, so that what it reads stays as it is.
func ExampleGuard_Seal() {
	ctx := context.Background()
	client, stop := openExample()
	defer stop()
	g, err := redisguard.New(ctx, client, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(g.Seal(ctx, "account/alice", 9))
	_, err = g.Get(ctx, "account/alice")
	fmt.Println(err == redis.Nil)
	fmt.Println(errors.Is(g.Set(ctx, "account/alice", 7, "late", 0), guard.ErrStale))
	// Output:
	// <nil>
	// true
	// true
}
