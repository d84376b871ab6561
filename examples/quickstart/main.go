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

import "github.com/fencedlock/fencedlock/examples/internal/story"

func main() {
	story.Main("quickstart", work, bothHalves)
}
