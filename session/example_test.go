package session_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

// connect stands for clientv3.New with the endpoints of your etcd. Here one runs inside the test.
func connect() (*clientv3.Client, func()) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cluster, err := etcdtest.New(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	client, err := cluster.NewClient()
	if err != nil {
		log.Fatal(err)
	}
	return client, func() {
		if err := errors.Join(client.Close(), cluster.Close()); err != nil {
			log.Print(err)
		}
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// One session serves all locks of a process. The lease's length is in whole seconds, rounded up, and the server may grant
// more.
func ExampleNew() {
	client, disconnect := connect()
	defer disconnect()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second) // bounds the call, not the session
	defer cancel()
	s, err := session.New(ctx, client, &session.Options{TTL: 9500 * time.Millisecond, Owner: "importer 3"})
	check(err)
	defer s.Close()

	fmt.Println("granted:", s.TTL())
	rest := s.Remaining()
	fmt.Println("trusted for less than that from now on:", 0 < rest && rest < s.TTL())
	// Output:
	// granted: 10s
	// trusted for less than that from now on: true
}

// Close frees all locks of the session at once, whoever still thinks that it holds one.
func ExampleSession_Close() {
	client, disconnect := connect()
	defer disconnect()
	ctx := context.Background()
	first, err := session.New(ctx, client, nil)
	check(err)
	held, err := lock.NewMutex(first, "report").Lock(ctx)
	check(err)
	check(first.Close())

	second, err := session.New(ctx, client, nil)
	check(err)
	defer second.Close()
	_, err = lock.NewMutex(second, "report").TryLock(ctx)
	fmt.Println("free again:", err == nil)
	fmt.Println("the first holder knows:", errors.Is(held.Err(), lock.ErrLost))
	// Output:
	// free again: true
	// the first holder knows: true
}

// The context's cause says why a session is over. One that is over stays over.
func ExampleSession_Context() {
	client, disconnect := connect()
	defer disconnect()
	ctx := context.Background()
	s, err := session.New(ctx, client, nil)
	check(err)

	// Somebody revokes the lease, as when it lapses on the server.
	_, err = client.Revoke(ctx, s.Lease())
	check(err)
	_, err = lock.NewMutex(s, "report").Lock(ctx)
	fmt.Println("no lock:", errors.Is(err, session.ErrExpired))
	<-s.Context().Done()
	fmt.Println("cause:", errors.Is(context.Cause(s.Context()), session.ErrExpired))
	fmt.Println("err:", errors.Is(s.Err(), session.ErrExpired))
	check(s.Close()) // still to be called, and no error
	// Output:
	// no lock: true
	// cause: true
	// err: true
}
