//go:build unix

package redisguard_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/redisguard"
	"github.com/fencedlock/fencedlock/internal/redistest"
)

// BenchmarkSet writes values with the guard and with a plain SET, in turn on one server. guarded/plain is the ratio of the
// medians' rates: 1 is for free.
func BenchmarkSet(b *testing.B) {
	for _, persisted := range []bool{false, true} {
		for _, size := range []int{16, 1 << 10, 64 << 10} {
			b.Run(fmt.Sprintf("%s/bytes=%d", persistence(persisted), size), func(b *testing.B) {
				c, g := startBench(b, persisted)
				value := strings.Repeat("x", size)
				var tok guard.Token
				inTurn(b,
					func() error { return c.Set(b.Context(), "plain", value, 0).Err() },
					func() error { tok++; return g.Set(b.Context(), "r", tok, value, 0) })
			})
		}
	}
}

// BenchmarkRun is the same for a script of a few commands, against a plain EVALSHA of it.
func BenchmarkRun(b *testing.B) {
	script := redis.NewScript(`local left = tonumber(redis.call('GET', KEYS[1]) or '1000000000') - tonumber(ARGV[1])
		if left < 0 then return redis.error_reply('EMPTY') end
		redis.call('SET', KEYS[1], left)
		return left`)
	for _, persisted := range []bool{false, true} {
		b.Run(persistence(persisted), func(b *testing.B) {
			c, g := startBench(b, persisted)
			keys := []string{g.Key("r", "stock")}
			var tok guard.Token
			inTurn(b,
				func() error { return script.Run(b.Context(), c, []string{"plain"}, 1).Err() },
				func() error { tok++; return g.Run(b.Context(), "r", tok, script, keys, 1).Err() })
		})
	}
}

// BenchmarkCrowd has 32 goroutines write to as many resources: there the server's own time counts, and not the way to it.
func BenchmarkCrowd(b *testing.B) {
	const writers, each = 32, 50
	c, g := startBench(b, false)
	crowd := func(write func(i int) error) func() error {
		return func() error {
			var wg sync.WaitGroup
			for i := range writers {
				wg.Go(func() {
					for range each {
						if err := write(i); err != nil {
							b.Error(err)
						}
					}
				})
			}
			wg.Wait()
			return nil
		}
	}
	names := make([]string, writers)
	for i := range names {
		names[i] = fmt.Sprint("r", i)
	}
	inTurn(b,
		crowd(func(i int) error { return c.Set(b.Context(), names[i], "0123456789abcdef", 0).Err() }),
		crowd(func(i int) error { return g.Set(b.Context(), names[i], 5, "0123456789abcdef", 0) }))
}

func persistence(yes bool) string {
	if yes {
		return "appendfsync=always"
	}
	return "memory"
}

func startBench(b *testing.B, persisted bool) (*redis.Client, *redisguard.Guard) {
	var settings []string
	if persisted {
		settings = durable
	}
	c := redistest.Start(b, settings...).Client(b)
	return c, newGuard(b, c, nil)
}

// inTurn runs both in turn and reports the medians.
func inTurn(b *testing.B, plain, guarded func() error) {
	timed := func(op func() error) time.Duration {
		start := time.Now()
		if err := op(); err != nil {
			b.Fatal(err)
		}
		return time.Since(start)
	}
	for range 50 { // connections are made, scripts are known
		timed(plain)
		timed(guarded)
	}
	var p, g []time.Duration
	for b.Loop() {
		p = append(p, timed(plain))
		g = append(g, timed(guarded))
	}
	median := func(d []time.Duration) float64 {
		slices.Sort(d)
		return float64(d[len(d)/2].Nanoseconds()) / 1000
	}
	b.ReportMetric(median(p)/median(g), "guarded/plain")
	b.ReportMetric(median(g), "guarded-µs")
	b.ReportMetric(median(p), "plain-µs")
}
