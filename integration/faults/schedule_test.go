//go:build unix

package main

import (
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"
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
