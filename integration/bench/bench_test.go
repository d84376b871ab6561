package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == memoryCommand { // started by the measurement of memory
		if err := holdLocks(context.Background(), os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func TestEveryMeasurementRuns(t *testing.T) {
	var out strings.Builder
	b := &bench{out: &out, dir: t.TempDir(), size: size{
		slice: 200 * time.Millisecond, rounds: 1, queue: 1500 * time.Millisecond, turns: 1, cycles: 20, locks: 20, crowd: 20,
	}}
	// All but contend64, which is contend16 with more programs than the race detector can bear.
	err := b.all(t.Context(), regexp.MustCompile("free|names|aging|contend2|contend16|session|trylock|memory|crowd"))
	t.Logf("\n%s", &out)
	if err != nil {
		t.Fatal(err)
	}
	if len(b.rows) < 10 {
		t.Errorf("%d rows, want more", len(b.rows))
	}
}

// Figures mean little on a busy machine under the race detector, but etcd's mutex hands over about 20 times a second, since
// it starts its watches in the past, and that is another order of magnitude.
//
// https://github.com/etcd-io/etcd/blob/v3.6.0/server/storage/mvcc/watchable_store.go
func TestTwoContendersAreAnOrderOfMagnitudeFaster(t *testing.T) {
	// As a program of its own, since the race detector slows us down and not the pauses of the other.
	exe := filepath.Join(t.TempDir(), "bench")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", exe, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const tries, want = 5, 8
	for range tries { // a disturbance only ever makes the ratio smaller
		out, err := exec.CommandContext(t.Context(), exe, "-short", "-dir", t.TempDir(), "-run", "^contend2$").CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		found := regexp.MustCompile(`(?m)^2 contenders.*/s +\d+/s +([\d.]+) `).FindSubmatch(out)
		if found == nil {
			t.Fatalf("no ratio in\n%s", out)
		}
		ratio, err := strconv.ParseFloat(string(found[1]), 64)
		if err != nil {
			t.Fatal(err)
		}
		if ratio >= want {
			return
		}
		t.Logf("\n%s", out)
	}
	t.Errorf("the ratio was below %d %d times", want, tries)
}

func TestSlicesGoBackAndForthAndAnArmWithoutResultIsAnError(t *testing.T) {
	var order strings.Builder
	mark := func(name string) arm {
		return arm{workers: 1, op: func(context.Context, int) error {
			order.WriteString(name)
			time.Sleep(time.Millisecond)
			return nil
		}}
	}
	// An operation that is longer than its slice never ends in it.
	if _, err := inTurn(t.Context(), 1, time.Microsecond, mark("a")); err == nil {
		t.Error("no error without a result")
	}
	order.Reset()
	got, err := inTurn(t.Context(), 3, 20*time.Millisecond, mark("a"), mark("b"))
	if err != nil {
		t.Fatal(err)
	}
	turns := regexp.MustCompile("a+|b+").ReplaceAllStringFunc(order.String(), func(s string) string { return s[:1] })
	// A warm-up, then forth, back and forth: b,b and a,a follow each other.
	if turns != "ababab" {
		t.Errorf("the order was %s, want ababab", turns)
	}
	for i, o := range got {
		if len(o.rates) != 3 || o.median() < time.Millisecond || o.rate() > 1000 {
			t.Errorf("arm %d: %d slices, median %v, %v/s", i, len(o.rates), o.median(), o.rate())
		}
	}
}
