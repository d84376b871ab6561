//go:build unix

package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
	"github.com/fencedlock/fencedlock/integration/faults/internal/store"
	"github.com/fencedlock/fencedlock/integration/faults/internal/worker"
)

// What the run takes for granted of the storages, and of what is done to them.
func TestEachStorage(t *testing.T) {
	s := newStage(t.Context(), t.Output())
	err := s.do(func() {
		site := openSite(s, true)
		t.Run("refuses a late write under its guard alone", func(t *testing.T) { refusesLateWrites(t, s, site) })
		t.Run("is interrupted in a write", func(t *testing.T) { isInterrupted(t, site) })
		t.Run("is struck in a write", func(t *testing.T) { isStruck(t, site) })
		t.Run("keeps its data over a restart", func(t *testing.T) { keepsItsData(t, site) })
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Under its guard each storage refuses a late write and tells the mark; without it takes the same write, as the controls
// need it.
func refusesLateWrites(t *testing.T, s *stage, site *site) {
	without := site.places
	unserved := site.direct
	unserved.HTTP, unserved.GRPC = "", ""
	service := startService(s, unserved, false)
	without.HTTP, without.GRPC = service.cfg.Places.HTTP, service.cfg.Places.GRPC
	for _, k := range store.Kinds() {
		for i, places := range []store.Places{site.places, without} { // in this order: an object that was written past its guard has no mark
			guarded := i == 0
			lateWrite(t, k, open(t, k, places, guarded), guarded)
		}
	}
}

func open(t *testing.T, k store.Kind, places store.Places, guarded bool) store.Store {
	t.Helper()
	st, err := k.Open(t.Context(), places, guarded)
	if err != nil {
		t.Fatalf("%s: %v", k.Name, err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Errorf("%s: %v", k.Name, err)
		}
	})
	return st
}

func lateWrite(t *testing.T, k store.Kind, st store.Store, guarded bool) {
	name, ctx := k.Resource(), t.Context()
	late, successor := fmt.Sprintf("late, guarded %t", guarded), fmt.Sprintf("successor, guarded %t", guarded)
	write := func(tok guard.Token, d history.Doc, op string) (history.Outcome, guard.Token) {
		c := history.Change{From: 1, To: 3, Amount: amount}
		next, _ := d.Apply(op, c)
		inside := 0
		err := st.Write(ctx, name, tok, store.Write{Doc: next, Change: c, Inside: func() { inside++ }})
		if inside != 1 && (err == nil || !guarded) {
			t.Errorf("%s: Inside was called %d times", k.Name, inside)
		}
		return store.OutcomeOf(err)
	}
	if err := st.Seal(ctx, name, 7); err != nil {
		t.Fatalf("%s: %v", k.Name, err)
	}
	if mark, err := st.Highest(ctx, name); guarded && (err != nil || mark != 7) {
		t.Errorf("%s: sealed with 7, the mark is %d, %v", k.Name, mark, err)
	}
	base, err := st.Read(ctx, name)
	if err != nil || base.Base().Sum() != history.Accounts*history.Opening {
		t.Fatalf("%s: read %+v, %v", k.Name, base, err)
	}
	if o, _ := write(9, base, successor); o != history.Applied {
		t.Errorf("%s: the successor's write is %s", k.Name, o)
	}
	o, highest := write(7, base, late)
	d, err := st.Read(ctx, name)
	if err != nil {
		t.Fatalf("%s: %v", k.Name, err)
	}
	mark, err := st.Highest(ctx, name)
	if err != nil {
		t.Errorf("%s: %v", k.Name, err)
	}
	last := d.List[len(d.List)-1]
	switch {
	case guarded && (o != history.Stale || highest != 9 || mark != 9 || last != successor):
		t.Errorf("%s: the late write is %s for %d; the mark is %d, and %s is there", k.Name, o, highest, mark, last)
	case !guarded && (o != history.Applied || last != late):
		t.Errorf("%s, without a guard: the late write is %s, and %s is there", k.Name, o, last)
	}
	// What is overwritten in the list stays in the journal, and the money moved twice: a lost update and a double one differ.
	journal := addsUp(t, k, st)
	if journal != nil && (!slices.Contains(journal, successor) || slices.Contains(journal, late) == guarded) {
		t.Errorf("%s, guarded %t: carried out were %q", k.Name, guarded, journal)
	}
	if !guarded && slices.Contains(d.List, successor) {
		t.Errorf("%s, without a guard: %s is still there", k.Name, successor)
	}
}

// isInterrupted lets a successor write while a write is half sent: it has not come before it is whole, and then it is late.
// In a transaction of SQL nobody comes between.
func isInterrupted(t *testing.T, site *site) {
	interrupted := 0
	for _, k := range store.Kinds() {
		if slices.Contains([]string{"sqlite", "postgres", "pgx", "mariadb"}, k.Name) {
			continue
		}
		st, other := open(t, k, site.places, true), open(t, k, site.places, true)
		tok, d := newHolder(t, k, st)
		c := history.Change{From: 1, To: 3, Amount: amount}
		next, _ := d.Apply(k.Name+", interrupted", c)
		err := st.Write(t.Context(), k.Resource(), tok, store.Write{Doc: next, Change: c, Inside: func() {
			interrupted++
			tok, now := newHolder(t, k, other)
			if !slices.Equal(now.List, d.List) {
				t.Errorf("%s: what is half sent is there: %q", k.Name, now.List)
			}
			if o, err := write(t.Context(), k, other, tok, now, k.Name+", meanwhile"); o != history.Applied {
				t.Errorf("%s: the successor's write is %s, %v", k.Name, o, err)
			}
		}})
		if o, highest := store.OutcomeOf(err); o != history.Stale || highest != tok+1 {
			t.Errorf("%s: the write that was interrupted is %s for %d, %v", k.Name, o, highest, err)
		}
		addsUp(t, k, st)
		if d, err := st.Read(t.Context(), k.Resource()); err != nil || d.List[len(d.List)-1] != k.Name+", meanwhile" {
			t.Errorf("%s: it holds %q, %v", k.Name, d.List, err)
		}
	}
	if interrupted != 8 {
		t.Errorf("%d were interrupted, want 8", interrupted)
	}
}

// amount is what every write of these tests moves from account 1 to account 3.
const amount = 7

// addsUp looks whether every write was carried out once, by the journal and by the accounts, and returns the journal, nil
// where none is kept.
func addsUp(t *testing.T, k store.Kind, st store.Store) []string {
	t.Helper()
	d, err := st.Read(t.Context(), k.Resource())
	if err != nil {
		t.Fatalf("%s: %v", k.Name, err)
	}
	journal, err := st.Journal(t.Context(), k.Resource())
	if err != nil {
		t.Fatalf("%s: %v", k.Name, err)
	}
	sorted := slices.Sorted(slices.Values(journal))
	if once := slices.Compact(slices.Clone(sorted)); len(once) != len(sorted) {
		t.Errorf("%s: something was carried out twice: %q", k.Name, journal)
	}
	writes := len(journal)
	if journal == nil || k.Name == "etcd" { // accounts that are replaced say what the list says
		writes = len(d.List)
	}
	want := history.NewDoc().Accounts
	want[1], want[3] = want[1]-amount*writes, want[3]+amount*writes
	if d.Accounts != want {
		t.Errorf("%s: after %d writes the accounts are %v, want %v", k.Name, writes, d.Accounts, want)
	}
	return journal
}

// A worker hears of the step, and its session is over for it: else the fault would test nothing.
//
// https://github.com/etcd-io/etcd/issues/12291
func TestAWorkerSeesTheStepOfItsClock(t *testing.T) {
	dir := t.TempDir()
	s := newStage(t.Context(), t.Output())
	err := s.do(func() {
		site := &site{etcd: etcdtest.Start(s, nil), places: store.Places{Files: s.TempDir()}}
		site.places.Etcd = site.etcd.Endpoints()
		k, err := store.Of("file-ledger")
		if err != nil {
			s.Fatal(err)
		}
		if err := k.Init(s.Context(), site.places, k.Resource()); err != nil {
			s.Fatal(err)
		}
		m := hire(s, site, worker.Config{Mode: worker.Guarded, Namespace: namespace, TTL: ttl, Places: site.places,
			Resources: []string{k.Resource()}}, dir, 0)
		works := func() {
			t.Helper()
			for seen := len(events(t, dir)); len(events(t, dir)) < seen+20; time.Sleep(10 * time.Millisecond) {
			}
		}
		works()
		var off time.Duration
		for _, by := range []time.Duration{time.Hour, -2 * time.Hour} {
			m.now().must("step %v", by)
			off += by
			reads, err := time.ParseDuration(m.now().p.Expect("clock ", 10*time.Second))
			if err != nil {
				s.Fatal(err)
			}
			if more := reads - time.Duration(history.Now()) - off; more < -10*time.Second || more > 0 {
				t.Errorf("after a step by %v the worker's clock is wrong by %v more than %v", by, more, off)
			}
			works() // and looks at its session in each turn
		}
		m.now().must("calm")
		m.now().must("finish")
		m.now().p.Expect("done", calmLimit)
	})
	if err != nil {
		t.Fatal(err)
	}
	var lost, opened int
	for _, e := range events(t, dir) {
		switch e.Kind {
		case history.Lost:
			lost++
		case history.Opened:
			opened++
		}
	}
	if lost != 1 || opened != 2 {
		t.Errorf("%d sessions were opened and %d lost; want the step forwards to end one, and the step back none", opened, lost)
	}
}

func events(t *testing.T, dir string) []history.Event {
	found, err := history.ReadFile(filepath.Join(dir, "w0.0.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}
