package main

import (
	"fmt"
	"time"
)

// A row compares what both libraries did.
type row struct {
	what         string
	theirs, ours string
	ratio        float64
	target       string // empty: there is none
	missed       bool
}

// latencies is a row about times, where less is better: the ratio is above 1 when ours is shorter.
func latencies(what string, theirs, ours time.Duration) row {
	return row{what: what, theirs: micros(theirs), ours: micros(ours), ratio: float64(theirs) / float64(ours)}
}

// rates is a row about operations per second: the ratio is above 1 when ours are more.
func rates(what string, theirs, ours float64) row {
	return row{what: what, theirs: fmt.Sprintf("%.0f/s", theirs), ours: fmt.Sprintf("%.0f/s", ours), ratio: ours / theirs}
}

// counts is a row about costs: the ratio is above 1 when ours are less.
func counts(what string, theirs, ours int) row {
	return row{what: what, theirs: fmt.Sprint(theirs), ours: fmt.Sprint(ours), ratio: float64(theirs) / float64(ours)}
}

func micros(d time.Duration) string { return fmt.Sprintf("%d µs", d.Microseconds()) }

func (r row) atLeast(target float64) row {
	r.target, r.missed = fmt.Sprintf(">= %.2f", target), r.ratio < target
	return r
}

func (r row) atMost(target float64) row {
	r.target, r.missed = fmt.Sprintf("<= %.2f", target), r.ratio > target
	return r
}

const layout = "%-46s %14s %14s %7s  %-8s %s\n"

func tableHead() string {
	return fmt.Sprintf(layout, "what", "theirs", "ours", "ratio", "target", "")
}

func (r row) String() string {
	verdict := ""
	switch {
	case r.missed:
		verdict = "below"
	case r.target != "":
		verdict = "ok"
	}
	return fmt.Sprintf(layout, r.what, r.theirs, r.ours, fmt.Sprintf("%.2f", r.ratio), r.target, verdict)
}
