//go:build unix

package azbucket_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/azbucket"
	"github.com/fencedlock/fencedlock/internal/aztest"
)

// BenchmarkPut overwrites one object with the guard and without it, in turn on one server, which keeps objects in memory: so
// it shows what the guard adds in the process, and not what Azure takes. guarded/plain is the ratio of the medians'
// rates: 1 is for free.
func BenchmarkPut(b *testing.B) {
	for _, codec := range codecs {
		for _, size := range []int{1 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%s/size=%d", codec, size), func(b *testing.B) {
				s := aztest.Shared(b)
				name := newContainer(b, s)
				client := newClient(b, s.Address(), name, nil)
				g := newGuard(b, azbucket.New(client), &blobguard.Options{Codec: codec})
				body, tok := strings.Repeat("x", size), guard.Token(0)
				guarded := func() error {
					tok++ // a new holder each time
					return g.Put(b.Context(), "guarded", tok, strings.NewReader(body))
				}
				plain := func() error {
					_, err := client.NewBlockBlobClient("plain").Upload(b.Context(), streaming.NopCloser(strings.NewReader(body)), nil)
					return err
				}
				report(b, plain, guarded)
			})
		}
	}
}

// report runs both in turn, and reports the medians of their times.
func report(b *testing.B, plain, guarded func() error) {
	timed := func(op func() error) time.Duration {
		start := time.Now()
		if err := op(); err != nil {
			b.Fatal(err)
		}
		return time.Since(start)
	}
	for range 20 {
		timed(plain)
		timed(guarded)
	}
	var without, with []time.Duration
	for b.Loop() {
		without = append(without, timed(plain))
		with = append(with, timed(guarded))
	}
	slices.Sort(without)
	slices.Sort(with)
	mo, mw := without[len(without)/2], with[len(with)/2]
	b.ReportMetric(float64(mo)/float64(mw), "guarded/plain")
	b.ReportMetric(float64(mw.Microseconds()), "guarded-µs")
	b.ReportMetric(float64(mo.Microseconds()), "plain-µs")
}
