package history

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHistoriesAreMergedInTheOrderOfTime(t *testing.T) {
	dir := t.TempDir()
	a, err := NewRecorder(filepath.Join(dir, "a.jsonl"), "a")
	if err != nil {
		t.Fatal(err)
	}
	b, err := NewRecorder(filepath.Join(dir, "b.jsonl"), "b")
	if err != nil {
		t.Fatal(err)
	}
	d := NewDoc()
	a.Add(Event{T: 5, Kind: Got, Token: 7})
	b.Add(Event{T: 3, Kind: Read, Base: d.Base()})
	a.Add(Event{T: 9, Kind: Final, Doc: &d, Journal: []string{}}) // it is kept, and empty
	b.Add(Event{T: 7, Kind: Write, Change: &Change{From: 1, To: 2, Amount: 3}, Dropped: []string{"x"}})
	for _, r := range []*Recorder{a, b} {
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// As a process leaves it that is killed while it writes.
	f, err := os.OpenFile(filepath.Join(dir, "b.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"t":8,"who":"b","ki`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	got, err := Merge(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []Event{
		{T: 3, Who: "b", Kind: Read, Base: d.Base()},
		{T: 5, Who: "a", Kind: Got, Token: 7},
		{T: 7, Who: "b", Kind: Write, Change: &Change{From: 1, To: 2, Amount: 3}, Dropped: []string{"x"}},
		{T: 9, Who: "a", Kind: Final, Doc: &d, Journal: []string{}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	again := filepath.Join(t.TempDir(), "whole.jsonl")
	if err := WriteFile(again, got); err != nil {
		t.Fatal(err)
	}
	if read, err := ReadFile(again); err != nil || !reflect.DeepEqual(read, want) {
		t.Errorf("written and read: %+v, %v", read, err)
	}
	if err := os.WriteFile(again, []byte("no JSON\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(again); err == nil {
		t.Error("what is no event was read without an error")
	}
}

func TestAFullListIsDroppedAndMoneyOnlyMoves(t *testing.T) {
	d := NewDoc()
	total := 0
	for i := range 3*longest + 2 {
		next, dropped := d.Apply(string(rune('a'+i%26)), Change{From: i % Accounts, To: (i + 1) % Accounts, Amount: i})
		if (len(dropped) > 0) != (next.Gen > d.Gen) || len(next.List) > longest {
			t.Fatalf("after %d: dropped %d, list %d, generation %d", i, len(dropped), len(next.List), next.Gen)
		}
		total += len(dropped)
		if next.Base().Sum() != Accounts*Opening {
			t.Fatalf("after %d the accounts are %v", i, next.Accounts)
		}
		d = next
	}
	if total+len(d.List) != 3*longest+2 {
		t.Errorf("%d were dropped and %d are there, want %d in all", total, len(d.List), 3*longest+2)
	}
}
