package main

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

// steady is a report about samples that are all alike.
func steady() *report {
	r := &report{config: full(10 * time.Minute), tally: &tally{}}
	for n := range r.config.samples {
		r.samples = append(r.samples, sample{
			at:     time.Duration(n+1) * r.every,
			counts: counts{goroutines: 3000, keys: 1200, leases: 200, watches: 1000},
			client: memory{Heap: 10_000_000, Stacks: 10_000_000},
		})
	}
	return r
}

func TestMoreThanIsAllowedIsGrowth(t *testing.T) {
	if grown := steady().print(io.Discard); len(grown) > 0 {
		t.Fatalf("grown, where nothing changes: %v", grown)
	}
	for what, change := range map[string]func(s *sample, more int){
		"heap and stacks, KiB": func(s *sample, more int) { s.client.Heap += 200_000 + int64(more) },
		"goroutines":           func(s *sample, more int) { s.goroutines += 30 + more },
		"keys in etcd":         func(s *sample, more int) { s.keys += more },
		"leases in etcd":       func(s *sample, more int) { s.leases += more },
		"watches in etcd":      func(s *sample, more int) { s.watches += 10 + more },
	} {
		for more, want := range [][]string{nil, {what}} {
			r := steady()
			for n := 54; n < 60; n++ {
				change(&r.samples[n], more)
			}
			var out strings.Builder
			grown := r.print(&out)
			if !slices.Equal(grown, want) {
				t.Errorf("%s, what is allowed and %d more: grown: %v, want %v", what, more, grown, want)
			}
			if got := strings.Contains(out.String(), "GROWN"); got != (want != nil) {
				t.Errorf("%s: the table says so: %v, want %v\n%s", what, got, want != nil, &out)
			}
		}
	}
}

// What is in one sample and not in the next was not left behind; what is in all of them was, however high it was before.
func TestOnlyWhatIsInEverySampleCounts(t *testing.T) {
	r := steady()
	for n := 54; n < 59; n++ {
		r.samples[n].client.Heap *= 2
	}
	if grown := r.print(io.Discard); len(grown) > 0 {
		t.Errorf("grown, though the last sample is as low as ever: %v", grown)
	}
	r.samples[59].client.Heap *= 2
	for n := range 18 { // the time before three tenths
		r.samples[n].client.Heap *= 4
	}
	if grown := r.print(io.Discard); !slices.Contains(grown, "heap and stacks, KiB") {
		t.Errorf("not grown, though each sample is higher than after three tenths of the time: %v", grown)
	}
}

// What was left behind before three tenths of the time has not grown since, and is no less left behind.
func TestMoreInEtcdThanTheSessionsHoldIsFoundThoughItNeverGrows(t *testing.T) {
	r := steady()
	for n := range r.samples {
		r.samples[n].keys++
	}
	if grown := r.print(io.Discard); !slices.Equal(grown, []string{"keys in etcd"}) {
		t.Errorf("grown: %v", grown)
	}
}

func TestGaugeIsReadFromEtcdsMetrics(t *testing.T) {
	text := "# TYPE a_total gauge\na_total_more 7\na_total 12\nb{x=\"a_total 3\"} 1\n"
	if n, err := readGauge(strings.NewReader(text), "a_total"); n != 12 || err != nil {
		t.Errorf("%d, %v; want 12", n, err)
	}
	if _, err := readGauge(strings.NewReader(text), "missing"); err == nil {
		t.Error("no error for a gauge that is not there")
	}
}
