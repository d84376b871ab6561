//go:build unix

package blobguard_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/s3bucket"
	"github.com/fencedlock/fencedlock/internal/s3test"
)

// soak is set for the long form of the tests that have one.
var soak = os.Getenv("FENCEDLOCK_SOAK") == "1"

// accepted is a write that was acknowledged, with its beginning and end on a clock that only counts.
type accepted struct {
	tok        guard.Token
	start, end int64
}

// staleOnes counts the writes that began after one with a higher token had been acknowledged: no order of the writes
// excuses those.
func staleOnes(writes []accepted) (stale int) {
	byEnd := slices.SortedFunc(slices.Values(writes), func(a, b accepted) int { return int(a.end - b.end) })
	byStart := slices.SortedFunc(slices.Values(writes), func(a, b accepted) int { return int(a.start - b.start) })
	i, highest := 0, guard.Token(0)
	for _, w := range byStart {
		for ; byEnd[i].end < w.start; i++ {
			highest = max(highest, byEnd[i].tok)
		}
		if w.tok < highest {
			stale++
		}
	}
	return stale
}

// writer prepares a write: what it does before it is paused, and what it does after, which tells whether it was accepted.
type writer func(ctx context.Context, tok guard.Token, content string) (commit func() (bool, error))

// stress lets writers on several connections write one of two contents again and again, most of them with a token of
// their own, the others late: they had been paused between their look and their write. It goes on until enough says so.
func stress(t *testing.T, writers []writer, enough func(passed time.Duration, writes, stale int) bool) (writes []accepted) {
	t.Helper()
	var (
		clock, next atomic.Int64
		mu          sync.Mutex
		wg          sync.WaitGroup
	)
	begin, stop := time.Now(), make(chan struct{})
	for n, w := range writers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(n), 1))
			for {
				select {
				case <-stop:
					return
				default:
				}
				tok := guard.Token(next.Add(1))
				commit := w(t.Context(), tok, fmt.Sprint(rnd.IntN(2)))
				if rnd.IntN(2) == 0 { // the others overtake it meanwhile
					time.Sleep(time.Duration(rnd.IntN(int(12 * time.Millisecond))))
				}
				o := accepted{tok: tok, start: clock.Add(1)}
				ok, err := commit()
				o.end = clock.Add(1)
				if err != nil {
					t.Errorf("token %d: %v", int64(tok), err)
					return
				}
				if ok {
					mu.Lock()
					writes = append(writes, o)
					mu.Unlock()
				}
			}
		})
	}
	for {
		time.Sleep(100 * time.Millisecond)
		mu.Lock()
		n, stale := len(writes), staleOnes(writes)
		mu.Unlock()
		if t.Failed() || enough(time.Since(begin), n, stale) {
			close(stop)
			wg.Wait()
			return writes
		}
	}
}

// stressTime is how long at least the guard has to hold out, and how long at most the control has to fail.
func stressTime() (holds, fails time.Duration) {
	if soak {
		return 15 * time.Second, 60 * time.Second
	}
	return time.Second, 30 * time.Second
}

// stressWrites is how many writes the guard has to accept, whatever time that takes on a busy machine.
const stressWrites = 60

const stressWriters = 8

// No late write gets in, although the same few contents come again and again, so that all that is not the stamp is the same.
func TestStressNoStaleWriteIsAccepted(t *testing.T) {
	s := s3test.Shared(t)
	bucket := s.Bucket(t)
	var writers []writer
	for range stressWriters {
		g := newGuard(t, s3bucket.New(s3test.NewClient(t, s.Address()), bucket), &blobguard.Options{Codec: blobguard.Comment("# ")})
		writers = append(writers, func(ctx context.Context, tok guard.Token, content string) func() (bool, error) {
			// The look of a guard is what it knows from before; to have it fresh is what makes it wrong after the pause.
			if _, err := g.Highest(ctx, "doc"); err != nil {
				t.Error(err)
			}
			return func() (bool, error) {
				err := g.Put(ctx, "doc", tok, strings.NewReader(content))
				if errors.Is(err, guard.ErrStale) || errors.Is(err, blobguard.ErrBusy) || errors.Is(err, guard.ErrUnknown) {
					return false, nil
				}
				return err == nil, err
			}
		})
	}
	holds, _ := stressTime()
	writes := stress(t, writers, func(passed time.Duration, writes, stale int) bool {
		return stale > 0 || passed > holds && writes >= stressWrites
	})
	stale := staleOnes(writes)
	t.Logf("%d writes accepted, %d of them stale", len(writes), stale)
	if stale > 0 {
		t.Errorf("%d of %d accepted writes were stale; want none", stale, len(writes))
	}
}

// The control: a token in the metadata, with If-Match on the ETag, lets late writers in under the same stress, since the ETag
// is made from the content: "it is still this content" is true again after a newer holder wrote the same.
func TestStressTokenInMetadataIsNoFence(t *testing.T) {
	s := s3test.Shared(t)
	bucket := s.Bucket(t)
	var writers []writer
	for range stressWriters {
		c := s3test.NewClient(t, s.Address())
		writers = append(writers, func(ctx context.Context, tok guard.Token, content string) func() (bool, error) {
			in := &s3.PutObjectInput{Bucket: &bucket, Key: aws.String("doc"), Body: strings.NewReader(content), Metadata: map[string]string{"token": tok.String()}}
			head, err := c.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &bucket, Key: in.Key})
			if err != nil {
				in.IfNoneMatch = aws.String("*")
			} else {
				in.IfMatch = head.ETag
				if mark, _ := strconv.ParseInt(head.Metadata["token"], 10, 64); guard.Check("doc", tok, guard.Token(mark)) != nil {
					return func() (bool, error) { return false, nil }
				}
			}
			return func() (bool, error) {
				_, err := c.PutObject(ctx, in, func(o *s3.Options) { o.Retryer = aws.NopRetryer{} })
				return err == nil, nil
			}
		})
	}
	holds, fails := stressTime()
	writes := stress(t, writers, func(passed time.Duration, _, stale int) bool {
		return stale > 0 && (!soak || passed > holds) || passed > fails
	})
	stale := staleOnes(writes)
	t.Logf("%d writes accepted, %d of them stale", len(writes), stale)
	if stale == 0 {
		t.Errorf("none of %d accepted writes was stale; then this stress finds nothing, with a guard neither", len(writes))
	}
}
