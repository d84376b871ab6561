//go:build unix

package main

import (
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
	"github.com/fencedlock/fencedlock/integration/faults/internal/worker"
)

func TestTheSeedAloneDecidesTheSchedule(t *testing.T) {
	for _, l := range lanes {
		one, again, other := l.schedule(42, time.Minute), l.schedule(42, time.Minute), l.schedule(43, time.Minute)
		if !reflect.DeepEqual(one, again) {
			t.Errorf("%s: two schedules of one seed", l.name)
		}
		if reflect.DeepEqual(one, other) {
			t.Errorf("%s: the seed makes no difference", l.name)
		}
		// A longer run begins as the shorter one did.
		if longer := l.schedule(42, time.Hour); !reflect.DeepEqual(longer[:len(one)], one) {
			t.Errorf("%s: the length makes a difference", l.name)
		}
		var last time.Duration
		for _, s := range one {
			if s.at < last || s.at+s.last > time.Minute {
				t.Errorf("%s: %v", l.name, s)
			}
			last = s.at + s.last
		}
	}
}

func TestEveryFaultIsDrawn(t *testing.T) {
	drawn := make(map[string]bool)
	for _, l := range lanes {
		for _, s := range l.schedule(1, 5*time.Minute) {
			drawn[s.kind] = true
		}
	}
	if got, want := slices.Sorted(maps.Keys(drawn)), slices.Sorted(maps.Keys(faults)); !slices.Equal(got, want) {
		t.Errorf("drawn in five minutes: %q\nthere are:              %q", got, want)
	}
}

// A wait is judged only where nothing excuses it, so there must be such times, and they must come again and again.
func TestNoFaultIsDrawnForATruce(t *testing.T) {
	for _, l := range lanes {
		perAct := make(map[time.Duration]int)
		steps := l.schedule(42, time.Hour)
		for _, s := range steps {
			perAct[s.at/cycle]++
			if s.at%cycle+s.last > act {
				t.Errorf("%s: %v is in a truce", l.name, s)
			}
			if at := s.at % cycle; at < l.part.from || at+s.last > l.part.to {
				t.Errorf("%s: %v is not in its part of the act, %v", l.name, s, l.part)
			}
		}
		if n := time.Duration(len(perAct)); n != time.Hour/cycle {
			t.Errorf("%s: there are faults in %d of %d acts", l.name, n, time.Hour/cycle)
		}
	}
	if waits := ttl + 2*time.Second; truce < waits+time.Second {
		t.Errorf("a truce of %v is too short to see that somebody waits for more than %v", truce, waits)
	}
}

// Each kind has its turns counted by itself, so that it comes to all storages.
func TestAKindComesToAllStorages(t *testing.T) {
	for _, l := range lanes {
		first, next := make(map[string]int), make(map[string]int)
		for _, s := range l.schedule(42, time.Hour) {
			if _, drawn := first[s.kind]; !drawn {
				first[s.kind], next[s.kind] = s.turn, s.turn
			}
			if s.turn != next[s.kind] {
				t.Fatalf("%s: %v has turn %d, want %d", l.name, s, s.turn, next[s.kind])
			}
			next[s.kind]++
		}
		starts := make(map[int]bool)
		for _, turn := range first {
			starts[turn] = true
		}
		if len(starts) < min(2, len(first)) {
			t.Errorf("%s: all kinds begin at turn %v", l.name, starts)
		}
	}
}

// The nemesis keeps the truces, however long the faults of an act take.
func TestTheNemesisKeepsTruces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		under, truces := 0, 0
		ended := time.Now()
		n := newNemesis(newStage(t.Context(), t.Output()), round{mode: worker.Etcd}, nil, nopRecorder(t), nil)
		n.faults = make(map[string]fault)
		for kind := range faults {
			n.faults[kind] = func(*nemesis, step) (strike, error) {
				mu.Lock()
				defer mu.Unlock()
				if under == 0 && time.Since(ended) >= truce {
					truces++
				}
				under++
				return strike{effect: func() effect { return nothing }, undo: func() {
					time.Sleep(3 * time.Second) // longer than it should take
					mu.Lock()
					defer mu.Unlock()
					under--
					ended = time.Now()
				}}, nil
			}
		}
		n.run(t.Context(), 42, 5*cycle)
		if truces < 3 {
			t.Errorf("there were %d truces in %v", truces, 5*cycle)
		}
	})
}

func nopRecorder(t *testing.T) *history.Recorder {
	t.Helper()
	rec, err := history.NewRecorder(filepath.Join(t.TempDir(), "nemesis.jsonl"), "nemesis")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rec.Close() })
	return rec
}
