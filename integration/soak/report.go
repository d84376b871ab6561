package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// report compares what there was after three tenths of the time with what there is at the end.
type report struct {
	config
	samples []sample
	tally   *tally
}

// A figure is one thing that is compared.
type figure struct {
	what  string
	value func(sample) int64
	want  int64 // what the sessions hold; 0 when that is not known, and it is compared with what it was
	slack float64
	unit  int64 // that it is printed in
}

// figures are those that must not grow, and those that are told as information.
func (r *report) figures() (judged, told []figure) {
	hold := r.least()
	judged = []figure{
		{what: "heap and stacks, KiB", value: func(s sample) int64 { return s.client.Heap + s.client.Stacks }, slack: r.slack.memory, unit: 1 << 10},
		{what: "goroutines", value: func(s sample) int64 { return int64(s.goroutines) }, slack: r.slack.goroutines, unit: 1},
		{what: "keys in etcd", value: func(s sample) int64 { return int64(s.keys) }, want: int64(hold.keys), unit: 1},
		{what: "leases in etcd", value: func(s sample) int64 { return int64(s.leases) }, want: int64(hold.leases), unit: 1},
		{what: "watches in etcd", value: func(s sample) int64 { return int64(s.watches) }, want: int64(hold.watches), slack: r.slack.watches, unit: 1},
	}
	told = []figure{
		{what: "heap, KiB", value: func(s sample) int64 { return s.client.Heap }, unit: 1 << 10},
		{what: "stacks, KiB", value: func(s sample) int64 { return s.client.Stacks }, unit: 1 << 10},
		{what: "resident memory, KiB", value: func(s sample) int64 { return s.client.RSS }, unit: 1 << 10},
		{what: "etcd's heap, KiB", value: func(s sample) int64 { return s.etcd.Heap }, unit: 1 << 10},
		{what: "etcd's resident memory, KiB", value: func(s sample) int64 { return s.etcd.RSS }, unit: 1 << 10},
		{what: "etcd's goroutines", value: func(s sample) int64 { return int64(s.etcd.Goroutines) }, unit: 1},
		{what: "etcd's data in use, KiB", value: func(s sample) int64 { return s.db }, unit: 1 << 10},
	}
	return judged, told
}

// window is a tenth of the samples, the one that begins after so many tenths.
func (r *report) window(tenths int) []sample {
	n := len(r.samples)
	return r.samples[n*tenths/10 : max(n*(tenths+1)/10, n*tenths/10+1)]
}

// least is the smallest value of the samples. What is left behind is in each of them; what is only not yet collected, or the
// slack of a map or of a stack, is in some.
func least(samples []sample, value func(sample) int64) int64 {
	low := value(samples[0])
	for _, s := range samples[1:] {
		low = min(low, value(s))
	}
	return low
}

// compare returns a figure's values after three tenths of the time, or what the sessions hold, and at the end, and whether it has
// grown.
func (r *report) compare(f figure) (first, last int64, grown bool) {
	first, last = f.want, least(r.window(9), f.value)
	if first == 0 {
		first = least(r.window(3), f.value)
	}
	return first, last, float64(last) > float64(first)*(1+f.slack)
}

const progress = "%6s %10s %12s %11s %6s %7s %8s\n"

// add takes a sample and prints each sixth, so that one sees how it goes.
func (r *report) add(out io.Writer, p sample) {
	if len(r.samples) == 0 {
		fmt.Fprintf(out, progress, "after", "heap, KiB", "stacks, KiB", "goroutines", "keys", "leases", "watches")
	}
	r.samples = append(r.samples, p)
	if len(r.samples)%6 == 0 {
		fmt.Fprintf(out, progress, p.at.Round(time.Second), fmt.Sprint(p.client.Heap>>10), fmt.Sprint(p.client.Stacks>>10), fmt.Sprint(p.goroutines),
			fmt.Sprint(p.keys), fmt.Sprint(p.leases), fmt.Sprint(p.watches))
	}
}

// print writes the table and returns what has grown.
func (r *report) print(out io.Writer) (grown []string) {
	first, last := r.window(3), r.window(9)
	fmt.Fprintf(out, "\n%s.\nThe least of %d samples from %v to %v, or what the sessions hold, and the least of %d from %v to %v:\n\n", r.tally,
		len(first), first[0].at.Round(time.Second), first[len(first)-1].at.Round(time.Second),
		len(last), last[0].at.Round(time.Second), last[len(last)-1].at.Round(time.Second))
	const layout = "%-28s %10s %10s %9s  %s\n"
	fmt.Fprintf(out, layout, "what", "then", "at the end", "growth", "")
	line := func(f figure, verdict string) {
		a, b, _ := r.compare(f)
		growth := "unknown"
		if a > 0 {
			growth = fmt.Sprintf("%+.2f %%", 100*float64(b-a)/float64(a))
		}
		fmt.Fprintf(out, layout, f.what, fmt.Sprint(a/f.unit), fmt.Sprint(b/f.unit), growth, verdict)
	}
	judged, told := r.figures()
	for _, f := range judged {
		verdict := "ok"
		if _, _, more := r.compare(f); more {
			verdict, grown = "GROWN", append(grown, f.what)
		}
		line(f, verdict)
	}
	for _, f := range told {
		line(f, "not judged")
	}
	if len(grown) > 0 {
		fmt.Fprintf(out, "\nGrown: %s.\n", strings.Join(grown, "; "))
	}
	return grown
}
