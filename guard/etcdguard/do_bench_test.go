package etcdguard_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/fencedlock/guard"
)

// BenchmarkDo puts one key with the guard and without it, in turn on one server, which keeps its data in memory so that no
// disk hides the difference. guarded/plain is the ratio of the medians' rates: 1 is for free. Eight other guards have written
// before, so that the mark is as long as it gets.
func BenchmarkDo(b *testing.B) {
	for name, value := range map[string]string{"16 B": strings.Repeat("x", 16), "1 KiB": strings.Repeat("x", 1<<10), "64 KiB": strings.Repeat("x", 64<<10)} {
		b.Run(name, func(b *testing.B) {
			p := prefix(b)
			ctx, tok := b.Context(), guard.Token(0)
			for range 8 {
				tok++
				mustDo(b, newGuard(b, direct, p), "key", tok)
			}
			g := newGuard(b, direct, p)
			timed := func(op func() error) time.Duration {
				start := time.Now()
				if err := op(); err != nil {
					b.Fatal(err)
				}
				return time.Since(start)
			}
			plain := func() error { _, err := direct.Put(ctx, p+"plain", value); return err }
			guarded := func() error {
				tok++ // a new holder each time
				return g.Do(ctx, "key", tok, clientv3.OpPut(p+"guarded", value))
			}
			for range 50 {
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
		})
	}
}
