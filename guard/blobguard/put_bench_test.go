//go:build unix

package blobguard_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/s3bucket"
	"github.com/fencedlock/fencedlock/internal/s3test"
)

// BenchmarkPut writes an object with the guard, which knows the version from its last write, and by the SDK alone, in turn on
// one client and one server. guarded/plain is the ratio of the medians' rates: 1 is for free.
func BenchmarkPut(b *testing.B) {
	for _, codec := range codecs {
		for _, size := range []int{100, 100 << 10, 4 << 20} {
			b.Run(fmt.Sprintf("%s/size=%d", codec, size), func(b *testing.B) {
				s := s3test.Shared(b)
				bucket := s.Bucket(b)
				client := s3test.NewClient(b, s.Address())
				g := newGuard(b, s3bucket.New(client, bucket), &blobguard.Options{Codec: codec})
				content := `{"a":"` + strings.Repeat("x", size) + `"}`
				plain := func() error {
					_, err := client.PutObject(b.Context(), &s3.PutObjectInput{Bucket: &bucket, Key: aws.String("plain"), Body: strings.NewReader(content)})
					return err
				}
				tok := guard.Token(0)
				guarded := func() error {
					tok++ // the costlier case, a new holder each time
					return g.Put(b.Context(), "guarded", tok, strings.NewReader(content))
				}
				mo, mw := inTurn(b, plain, guarded)
				b.ReportMetric(float64(mo)/float64(mw), "guarded/plain")
				b.ReportMetric(float64(mw.Microseconds()), "guarded-µs")
				b.ReportMetric(float64(mo.Microseconds()), "plain-µs")
			})
		}
	}
}

// inTurn runs both in turn, and returns the medians of their times.
func inTurn(b *testing.B, one, other func() error) (time.Duration, time.Duration) {
	timed := func(op func() error) time.Duration {
		start := time.Now()
		if err := op(); err != nil {
			b.Fatal(err)
		}
		return time.Since(start)
	}
	for range 5 { // connections are open
		timed(one)
		timed(other)
	}
	var a, c []time.Duration
	for b.Loop() {
		a = append(a, timed(one))
		c = append(c, timed(other))
	}
	slices.Sort(a)
	slices.Sort(c)
	return a[len(a)/2], c[len(c)/2]
}
