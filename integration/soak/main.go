// Command soak lets sessions take and give back locks for a long time, loses their connections, closes sessions and has them
// end by force, and finds out whether anything of that stays behind: memory and goroutines in this process, keys, leases and
// watches in etcd, which is a process of its own so that the two are told apart.
//
//	go run ./integration/soak -for 10m
//
// There are two hundred sessions and two thousand names. Each session holds five of them for as long as it lasts; the other
// thousand are locked, unlocked, tried and waited for by all. Sixty times the workers stand still for a sample.
//
// Memory is the heap and the stacks after collections of garbage. It goes up and down all the same, so the least of the six samples
// after three tenths of the time is compared with the least of the last six; so are goroutines. What there should be in etcd is
// known: what the sessions hold.
//
// It ends with 1 when memory or goroutines are more than one per cent higher at the end than after three tenths of the time, when etcd
// has one key or lease more than the sessions hold, or one per cent more watches; and with 2 when it could not find out.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

func main() {
	if serving() {
		return
	}
	length := flag.Duration("for", 10*time.Minute, "how long all of it takes, starting apart; under 5m memory is still settling, and may be said to grow")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r, err := full(*length).run(ctx, os.Stdout)
	if err != nil {
		fmt.Fprintf(os.Stderr, "soak: %v\n", err)
		os.Exit(2)
	}
	if grown := r.print(os.Stdout); len(grown) > 0 {
		os.Exit(1)
	}
}
