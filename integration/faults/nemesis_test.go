//go:build unix

package main

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
	"github.com/fencedlock/fencedlock/integration/faults/internal/store"
	"github.com/fencedlock/fencedlock/integration/faults/internal/worker"
)

// smallStage has one member, one storage and some workers, and does with them what play says.
func smallStage(t *testing.T, mode worker.Mode, workers int, play func(n *nemesis)) []history.Event {
	t.Helper()
	dir := t.TempDir()
	s := newStage(t.Context(), t.Output())
	err := s.do(func() {
		site := &site{etcd: etcdtest.Start(s, nil)}
		site.client = site.etcd.Client(s)
		site.places = store.Places{Files: s.TempDir(), Etcd: site.etcd.Endpoints()}
		names := []string{"file-ledger", "etcd-ledger"} // of which they use the first one only, unless they are told to
		for _, name := range names {
			k, err := store.Of(name)
			if err == nil {
				err = k.Init(s.Context(), site.places, name)
			}
			if err != nil {
				s.Fatal(err)
			}
		}
		rec, err := history.NewRecorder(filepath.Join(dir, "nemesis.jsonl"), "nemesis")
		if err != nil {
			s.Fatal(err)
		}
		defer rec.Close()
		r := round{mode: mode, workers: workers}
		cfg := worker.Config{Mode: mode, Namespace: namespace, TTL: ttl, Places: site.places, Resources: names[:1]}
		n := newNemesis(s, r, site, rec, names)
		for i := range workers {
			n.crew = append(n.crew, hire(s, site, cfg, dir, i))
		}
		play(n)
		for _, m := range n.crew {
			m.loose.Wait()
			m.heal()
			if m.now().must("finish") {
				m.now().p.Expect("done", calmLimit)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	all, err := history.Merge(dir)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A fault that is counted, and excuses, has hit something. Each of those that hit workers does, when nothing is in its way.
func TestEachFaultOfAWorkerStrikes(t *testing.T) {
	t.Parallel()
	for mode, tested := range map[worker.Mode][]string{
		worker.Guarded: {"pauses", "workers", "network", "calls"},
		worker.Etcd:    {"workers", "calls"},
	} {
		for _, l := range lanes {
			if !slices.Contains(tested, l.name) {
				continue
			}
			t.Run(string(mode)+", "+l.name, func(t *testing.T) {
				t.Parallel()
				strikes(t, mode, l)
			})
		}
	}
}

func strikes(t *testing.T, mode worker.Mode, l lane) {
	want := make(map[string]int)
	all := smallStage(t, mode, 2, func(n *nemesis) {
		for i, d := range l.kinds {
			if mode == worker.Guarded || !strings.HasPrefix(d.kind, "clock") {
				want[d.kind] = 1
			}
			last := d.least
			if d.kind == "pause-after-read" {
				last = ms // it lasts until another has the lock
			}
			// What needs a wait in a queue, or a lock that is free at the time, may need another try.
			for try := 0; try < 5 && n.tally[d.kind].struck == 0; try++ {
				n.strike(step{kind: d.kind, pick: uint64(1000*try + i), last: last})
			}
			if got := n.tally[d.kind].struck; got != want[d.kind] {
				t.Errorf("%s has struck %d times; drawn %d", d.kind, got, n.tally[d.kind].drawn)
			}
		}
		for _, m := range n.crew {
			m.loose.Wait()
		}
		if l.name == "pauses" && n.late[n.names[0]] != 1 {
			t.Errorf("who was paused after reading, until another had the lock, was refused %d times", n.late[n.names[0]])
		}
	})
	recorded := make(map[string]int)
	for _, e := range all {
		if e.Kind == history.Begin {
			recorded[e.Fault]++
		}
	}
	for kind, n := range want {
		if recorded[kind] < n {
			t.Errorf("%s is not in the history", kind)
		}
	}
}

// What has hit nothing must neither count nor excuse.
func TestAFaultThatHitsNothingLeavesNoTrace(t *testing.T) {
	t.Parallel()
	did := func(e effect) fault {
		return func(*nemesis, step) (strike, error) {
			return strike{target: "w0.0", effect: func() effect { return e }}, nil
		}
	}
	fails := func(err error) fault {
		return func(*nemesis, step) (strike, error) { return strike{}, err }
	}
	var tallies map[string]tally
	all := smallStage(t, worker.Guarded, 0, func(n *nemesis) {
		n.faults = map[string]fault{
			"struck": did(struck), "nothing": did(nothing), "perhaps": did(perhaps), "not-now": fails(errNotNow), "never": fails(errNever),
		}
		for kind := range n.faults {
			n.strike(step{kind: kind})
		}
		tallies = n.tally
	})
	for kind, want := range map[string]struct {
		tally
		traces int
	}{
		"struck": {tally{1, 1}, 2}, "nothing": {tally{1, 0}, 0}, "perhaps": {tally{1, 0}, 2}, "not-now": {tally{1, 0}, 0}, "never": {tally{0, 0}, 0},
	} {
		traces := 0
		for _, e := range all {
			if e.Fault == kind {
				traces++
			}
		}
		if tallies[kind] != want.tally || traces != want.traces {
			t.Errorf("%s: %+v, %d events; want %+v", kind, tallies[kind], traces, want)
		}
	}
}

// What was to be taken from a holder may be gone before, and then nobody is excused by it.
func TestWhatIsNotThereIsNotTaken(t *testing.T) {
	t.Parallel()
	smallStage(t, worker.Guarded, 2, func(n *nemesis) {
		for i, err := range []error{nil, context.DeadlineExceeded} { // the other's answer is lost
			var holder lockKey
			hit, failed := n.take(step{pick: uint64(i), turn: i}, func(k lockKey) string { return k.name }, func(_ context.Context, k lockKey) (bool, error) {
				holder = k
				return false, err
			})
			if failed != nil {
				t.Fatal(failed)
			}
			if got, want := hit.effect(), []effect{nothing, perhaps}[i]; got != want {
				t.Errorf("%v: the effect is %d, want %d", err, got, want)
			}
			if now, ok := n.head(n.names[i]); !ok || now != holder || hit.target != now.name {
				t.Errorf("%q was to be taken; the holder, who stays, has %+v", hit.target, now)
			}
			for _, k := range []struct {
				rev  int64
				want bool
			}{{holder.token - 1, false}, {holder.token, true}, {holder.token, false}} {
				if done, err := n.remove(t.Context(), lockKey{name: holder.name, token: k.rev}); done != k.want || err != nil {
					t.Errorf("deleting revision %d of %+v: %t, %v", k.rev, holder, done, err)
				}
			}
		}
	})
}

// An order to strike what a worker does not do is no fault.
func TestACallThatIsNotMadeIsNotStruck(t *testing.T) {
	t.Parallel()
	smallStage(t, worker.Guarded, 1, func(n *nemesis) {
		lose := func(sort string) func(tag string) string {
			return func(tag string) string { return "lose " + sort + " " + tag + " 1" }
		}
		if hit, err := n.shoot(step{pick: 1}, "", lose("nothing")); err != errNotNow {
			t.Errorf("nobody makes such a call, and struck was %+v, %v", hit, err)
		}
		hit, err := n.shoot(step{pick: 2}, provoke["grant"], lose("grant"))
		if err != nil {
			t.Fatalf("a lease is asked for, and: %v", err)
		}
		hit.undo()
	})
}

// Orders to a process that is gone, or stands still, are not taken for obeyed, and another is found instead.
func TestADeadWorkerObeysNoOrder(t *testing.T) {
	t.Parallel()
	smallStage(t, worker.Guarded, 3, func(n *nemesis) {
		dead := n.crew[0].now()
		dead.kill()
		if dead.must("step 0s") || dead.order(time.Second, "step 0s") || dead.stop() {
			t.Error("a dead process has obeyed")
		}
		// Not in a write, where it would keep others from writing.
		still, ok := n.crew[1].come(afterRead, "tag", n.names[0], 10*time.Second)
		if !ok {
			t.Fatal("not stopped")
		}
		if still.order(100*time.Millisecond, "step 0s") {
			t.Error("a process that stands still has obeyed")
		}
		// The third may wait for the lock of the second, until that one's lease has lapsed.
		var l *life
		err := errNotNow
		for try := uint64(0); try < 5 && err != nil; try++ {
			_, l, _, err = n.bring(step{pick: 3 * try}, lingering, n.names[1])
		}
		if err != nil || l != n.crew[2].now() {
			t.Errorf("%+v was brought, %v; want the one that can come", l, err)
		}
		still.resume()
		n.crew[0].replace()
	})
}

// Two faults may want one process to stand still; it goes on when both are over.
func TestAProcessThatTwoFaultsStopStandsStillForBoth(t *testing.T) {
	t.Parallel()
	smallStage(t, worker.Guarded, 1, func(n *nemesis) {
		m := n.crew[0]
		l, ok := m.come(afterRead, "tag", n.names[0], 5*time.Second)
		if !ok || !l.stop() {
			t.Fatal("it does not stop")
		}
		l.resume()
		if l.order(300*time.Millisecond, "step 0s") {
			t.Error("the end of one fault has ended another")
		}
		l.resume()
		if !l.must("step 0s") {
			t.Error("it stands still when all faults are over")
		}
	})
}

func TestAKeyThatNobodyDeletesIsFoundInATruce(t *testing.T) {
	t.Parallel()
	all := smallStage(t, worker.Guarded, 0, func(n *nemesis) {
		for _, name := range []string{"once-1%/x", "once-1-tag%/x", worker.OnceNow() + "%/x", "other%/x"} {
			if _, err := n.site.client.Put(t.Context(), namespace+name, ""); err != nil {
				t.Fatal(err)
			}
		}
		n.leftOnce(t.Context())
	})
	var found []string
	for _, e := range all {
		if e.Kind == history.Over {
			key, _, _ := strings.Cut(e.Err, " ")
			found = append(found, key)
		}
	}
	slices.Sort(found)
	if want := []string{namespace + "once-1%/x", namespace + "once-1-tag%/x"}; !slices.Equal(found, want) {
		t.Errorf("found: %q\nwant:  %q", found, want)
	}
}
