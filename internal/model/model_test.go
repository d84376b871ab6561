//go:build unix

package model

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Each search looks at all states there are. Those of two sessions with faults without bound are too many, so faults hit
// one session without bound, and both within bounds.
var searches = map[string]string{
	"all faults of one session":                 "-DNO_DATA -DWILD=1",
	"two faults of two sessions, with TryLock":  "-DNO_DATA -DTRY -DFAULTS=2",
	"one fault of three sessions":               "-DNO_DATA -DFAULTS=1 -DSESSIONS=3",
	"one of three sessions ends":                "-DNO_DATA -DCALM -DWILD=1 -DSESSIONS=3",
	"guarded writes, one of two sessions ends":  "-DCALM -DWILD=1",
	"guarded writes, two ends of two sessions":  "-DCALM -DFAULTS=2",
	"guarded writes, one fault of two sessions": "-DFAULTS=1",
}

// Also no deadlock: SPIN finds each state in which nobody can go on although somebody has not come to rest.
func TestNoRunBreaksAPromise(t *testing.T) {
	var mu sync.Mutex
	reached := make(map[string]bool)
	names := reachable(t)
	t.Run("search", func(t *testing.T) {
		for name, switches := range searches {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				_, r := search{switches: switches, compile: optimize(switches) + " -DSAFETY"}.do(t)
				mustBeClean(t, r, "invalid end states\t+")
				mu.Lock()
				defer mu.Unlock()
				for _, n := range names {
					reached[n] = reached[n] || !r.unreached[n] && (!strings.Contains(switches, "-DNO_DATA") || n != "refused")
				}
			})
		}
	})
	if t.Failed() || t.Skipped() || len(reached) == 0 {
		return
	}
	for _, n := range names {
		if !reached[n] {
			t.Errorf("no run reaches %s, so the model says nothing about it", n)
		}
	}
	t.Logf("reached: %v", slices.Sorted(maps.Keys(reached)))
}

// reachable returns the names that the model calls REACHED with.
func reachable(t *testing.T) (names []string) {
	t.Helper()
	for _, file := range []string{"session.pml", "sweeper.pml", "world.pml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile(`REACHED\((\w+)\)`).FindAllStringSubmatch(string(text), -1) {
			names = append(names, found[1])
		}
	}
	if len(names) < 14 {
		t.Fatalf("only %v", names)
	}
	return names
}

func mustBeClean(t *testing.T, r result, checked string) {
	t.Helper()
	if r.errors != 0 || r.violated != "" || strings.Contains(r.output, "Search not completed") {
		t.Fatalf("%s:\n%s", r.violated, r.output)
	}
	for _, said := range []string{"Full statespace search", "+ Partial Order Reduction", checked} {
		if !strings.Contains(r.output, said) {
			t.Fatalf("not %q:\n%s", said, r.output)
		}
	}
	t.Logf("%d states, all of them", r.states)
}

// optimize returns the flag with which compiling and searching take the least time together.
func optimize(switches string) string {
	if switches == "-DNO_DATA -DWILD=1" || strings.Contains(switches, "TRY") || strings.Contains(switches, "SERVED") {
		return "-O1"
	}
	return "-O0"
}

// fair looks for runs in which something never happens although no process that could go on is passed over for ever.
const fair = "-a -f"

func TestEachWaiterIsServed(t *testing.T) {
	for name, switches := range map[string]string{
		"two faults of two sessions":  "-DSERVED -DNO_DATA -DFAULTS=2",
		"one fault of three sessions": "-DSERVED -DNO_DATA -DFAULTS=1 -DSESSIONS=3",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, r := search{switches: switches, compile: optimize(switches) + " -DNFAIR=8", run: fair}.do(t)
			mustBeClean(t, r, "cycles \t+ (fairness enabled)")
		})
	}
}

// The same without a part of the protocol, or with a mistake in it. The search is breadth first, so the story is the
// shortest there is.
func TestWithoutOneOfItsPartsTheProtocolBreaks(t *testing.T) {
	for name, c := range map[string]struct {
		switches string
		violated string
		story    []string // these lines in this order
	}{
		"without guard, the write of a paused holder destroys its successor's": {"-DNO_GUARD -DFAULTS=1", "lowerAfterHigher", []string{
			"session 1 HOLDS the lock, token 1",
			"session 1 sends a write with token 1",
			"the server ends the lease of session 1",
			"session 0 HOLDS the lock, token 2",
			"the write of session 0 with token 2 is ACCEPTED",
			"the write of session 1 with token 1 is ACCEPTED",
		}},
		"without seal, a late write lands between the successor's read and write": {"-DNO_SEAL -DFAULTS=1", "lostUpdate", []string{
			"session 1 sends a write with token 1",
			"session 0 HOLDS the lock, token 2",
			"session 0 reads the resource",
			"the write of session 1 with token 1 is ACCEPTED",
			"the write of session 0 with token 2 is ACCEPTED",
		}},
		"without epoch key, a put of the past leaves a key that nobody owns": {"-DNO_EPOCH -DNO_DATA -DFAULTS=2", "orphan", []string{
			"session 1: no reply, the put of its key 2 is under way",
			"session 1 gives up; its key, if any, is left to the sweeper",
			"session 1: the sweeper finds no key 2",
			"a late put of session 1 lands, revision 1; its acquisition is over",
		}},
		"with a key that is written twice, tokens fall": {"-DREWRITE -DFAULTS=0", "tokenFell", []string{
			"session 0: the key is there, revision 2",
			"session 1 writes its key again; its token is now 3",
			"session 0 HOLDS the lock, token 2",
		}},
		"with a key that is written twice, the next rightful holder is fenced out": {"-DREWRITE -DFAULTS=0", "fencedOut", []string{
			"session 0: the key is there, revision 2",
			"session 1 writes its key again; its token is now 3",
			"session 1 seals, mark 3",
			"session 1 released the lock",
			"session 0 HOLDS the lock, token 2",
			"session 0: its seal is refused, the mark is 3",
		}},
		"with an acquisition forgotten after its release, the sweeper spares a late put": {"-DLEAVE -DNO_DATA -DFAULTS=1", "orphan", []string{
			"session 1: no reply, the put of its key 2 is under way",
			"session 1 sends its put again",
			"session 1 released the lock",
			"a late put of session 1 lands, revision 2",
			"session 1: the sweeper leaves it, since its acquisition lives",
			"session 1 forgets its acquisition",
		}},
		"with a deadline later than the server's, two hold the lock": {"-DLATE_DEADLINE -DNO_DATA -DFAULTS=1", "twoHolders", []string{
			"the server ends the lease of session 1",
			"session 1 HOLDS the lock, token 1",
			"session 0 HOLDS the lock, token 2",
		}},
		"with a deadline later than the server's, one goes on without its key": {"-DLATE_DEADLINE -DNO_DATA -DFAULTS=1", "keyless", []string{
			"session 1: the key is there, revision 1",
			"the server ends the lease of session 1",
			"session 1 HOLDS the lock, token 1",
		}},
		// With seal, it is the seal that raises the mark before anything is written.
		"without seal, a write that does not raise the mark lets an older one in": {"-DNO_SEAL -DNO_RAISE -DFAULTS=1", "lowerAfterHigher", []string{
			"session 1 sends a write with token 1",
			"session 0 HOLDS the lock, token 2",
			"the write of session 0 with token 2 is ACCEPTED",
			"the write of session 1 with token 1 is ACCEPTED",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := search{switches: c.switches + " -DSTORY -DONLY=" + c.violated, compile: "-DSAFETY -DBFS", run: "-E"}
			dir, r := s.do(t)
			if r.errors != 1 || r.violated != c.violated {
				t.Fatalf("%d errors, %q:\n%s", r.errors, r.violated, r.output)
			}
			story := s.story(t, dir)
			t.Logf("%s after %d states:\n\t%s", r.violated, r.states, strings.Join(story, "\n\t"))
			rest := story
			for _, want := range c.story {
				i := slices.Index(rest, want)
				if i < 0 {
					t.Fatalf("the story has no %q in its place", want)
				}
				rest = rest[i+1:]
			}
		})
	}
}

// What a put of the past does to others: they wait behind it for as long as its session lives.
func TestWithoutEpochKeyAWaiterIsNeverServed(t *testing.T) {
	t.Parallel()
	_, r := search{switches: "-DSERVED -DNO_EPOCH -DNO_DATA -DFAULTS=2", compile: "-DNFAIR=8", run: fair + " -A"}.do(t)
	if r.violated != "acceptance cycle" {
		t.Fatalf("%d errors, %q:\n%s", r.errors, r.violated, r.output)
	}
}
