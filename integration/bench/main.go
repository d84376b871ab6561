// Command bench compares the locks of this module with those of etcd's own package concurrency, on one embedded etcd and in
// one process: the two sides work in turn, in many short slices, and medians are compared.
//
//	go run .            about three minutes
//	go run . -short     about half a minute, for a first look
//	go run . -dir /dev/shm -run free
//
// A ratio above 1 means that this module is faster, or needs less. Client and server share the machine's processors here,
// so the software's own cost weighs more than it does over a network.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"strings"
	"time"
)

func main() {
	if len(os.Args) == 5 && os.Args[1] == memoryCommand {
		if err := holdLocks(context.Background(), os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintf(os.Stderr, "bench: %v\n", err)
			os.Exit(1)
		}
		return
	}
	b := &bench{out: os.Stdout, size: full}
	short := flag.Bool("short", false, "measure for about half a minute instead of three")
	strict := flag.Bool("strict", false, "exit with 1 when a target is missed")
	run := flag.String("run", "", "only the measurements whose names this regular expression matches")
	flag.StringVar(&b.dir, "dir", os.TempDir(), "where etcd keeps its data; /dev/shm is memory, and takes the disk out of the figures")
	flag.Parse()
	if *short {
		b.size = small
	}
	only, err := regexp.Compile(*run)
	if err == nil && flag.NArg() > 0 {
		err = fmt.Errorf("arguments without a flag: %q", flag.Args())
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := b.all(ctx, only); err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
	if *strict && b.missed() > 0 {
		os.Exit(1)
	}
}

// bench is one run.
type bench struct {
	out  io.Writer
	dir  string // etcd's data
	size size
	rows []row // so far
}

// size says how much is measured.
type size struct {
	slice  time.Duration // of each side in a turn, where operations are short
	rounds int           // how many turns
	queue  time.Duration // as slice, where etcd's mutex needs up to 100 ms for each hand-over
	turns  int           // as rounds, for those
	cycles int           // that make a lock old
	locks  int           // held at once
	crowd  int           // goroutines that want one lock
}

var (
	full  = size{slice: 100 * time.Millisecond, rounds: 60, queue: time.Second, turns: 8, cycles: 20_000, locks: 2000, crowd: 1000}
	small = size{slice: 50 * time.Millisecond, rounds: 20, queue: 500 * time.Millisecond, turns: 2, cycles: 2000, locks: 500, crowd: 200}
)

type measurement struct {
	name string
	run  func(context.Context) error
}

func (b *bench) all(ctx context.Context, only *regexp.Regexp) error {
	fmt.Fprintf(b.out, "%s, %s/%s, %d processors, load average %s, etcd's data in %s\n\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), load(), b.dir)
	fmt.Fprint(b.out, tableHead())
	for _, m := range []measurement{
		{"free", b.free},
		{"names", b.names(32)},
		{"aging", b.aging},
		{"contend2", b.contend(2, 25)},
		{"contend16", b.contend(16, 4)},
		{"contend64", b.contend(64, 1.1)},
		{"session64", b.oneSession(64)},
		{"trylock", b.tryLock},
		{"memory", b.memory},
		{"crowd", b.crowd},
	} {
		if !only.MatchString(m.name) {
			continue
		}
		if err := m.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	fmt.Fprintf(b.out, "\nload average %s; targets missed: %d\n", load(), b.missed())
	return nil
}

func (b *bench) report(r row) {
	b.rows = append(b.rows, r)
	fmt.Fprint(b.out, r)
}

// missed returns how many targets were not reached.
func (b *bench) missed() (n int) {
	for _, r := range b.rows {
		if r.missed {
			n++
		}
	}
	return n
}

// load returns the load average of the last minute, where the system tells.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
