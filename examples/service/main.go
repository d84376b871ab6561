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
	"net"
	"os"

	"github.com/fencedlock/fencedlock/examples/internal/story"
)

func main() {
	story.Main("service", do, bothHalves)
}

// job is what a process is told to do: to serve File, or else to change the balance through the server at URL.
type job struct {
	File    string   // a server's database
	Client  string   // a name
	Etcd    []string // endpoints
	URL     string   // of the server
	Amount  int      // to add to the balance
	Guarded bool
}

func do(ctx context.Context, j job, tell story.Tell) error {
	if j.File == "" {
		return work(ctx, j, tell)
	}
	// The stage keeps the listener and hands it to each server, as systemd does: its port stays ours between two of them.
	l, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return err
	}
	return serve(ctx, j.File, l)
}
