//go:build unix

package gcsbucket_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/gcsbucket"
	"github.com/fencedlock/fencedlock/internal/gcstest"
)

// BenchmarkPut overwrites one object with the guard and without it, in turn on one server, which keeps objects in memory: so
// it shows what the guard adds in the process, and not what Cloud Storage takes. guarded/plain is the ratio of the medians'
// rates: 1 is for free.
func BenchmarkPut(b *testing.B) {
	for _, codec := range codecs {
		for _, size := range []int{1 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%s/size=%d", codec, size), func(b *testing.B) {
				s := gcstest.Shared(b)
				name := newName(b, s)
				client := newClient(b, s.Address())
				g := newGuard(b, gcsbucket.New(client, name), &blobguard.Options{Codec: codec})
				body, tok := strings.Repeat("x", size), guard.Token(0)
				guarded := func() error {
					tok++ // a new holder each time
					return g.Put(b.Context(), "guarded", tok, strings.NewReader(body))
				}
				plain := func() error {
					w := client.Bucket(name).Object("plain").NewWriter(b.Context())
					w.ChunkSize = 0
					_, err := w.Write([]byte(body))
					return errors.Join(err, w.Close())
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
