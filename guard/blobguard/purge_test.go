//go:build unix

package blobguard_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/internal/membucket"
	"github.com/fencedlock/fencedlock/internal/s3test"
)

// The request of a Purge is late. Were it sent again in secret, Purge would return nil, and the first one would land on what was
// acknowledged since, and take its mark away.
func TestPurgeWhoseRequestIsStillOnItsWayIsUnknown(t *testing.T) {
	onEach(t, func(t *testing.T, codec blobguard.Codec) {
		b, bucket := newBucket(t)
		for name, f := range map[string]s3test.Fault{"late": s3test.DelayRequest, "reply lost": s3test.LoseReply, "not asked": s3test.Fail} {
			proxy, through := throughProxy(t, bucket)
			opts := &blobguard.Options{Codec: codec}
			g := newGuard(t, through, opts)
			mustPut(t, g, "doc", 5, encode(codec, "a"))
			proxy.Requests()
			proxy.Set(func(r *http.Request) s3test.Fault {
				if r.Method == http.MethodDelete && !isData(r) {
					return f
				}
				return s3test.Pass
			})
			err := g.Purge(t.Context(), "doc")
			if !errors.Is(err, guard.ErrUnknown) {
				t.Errorf("%s: Purge = %v; want ErrUnknown", name, err)
			}
			if log := proxy.Requests(); len(log) != 1 {
				t.Errorf("%s: Purge sent %d requests; want one", name, len(log))
			}
			if statuses := proxy.Release(); f == s3test.DelayRequest && !slices.Equal(statuses, []int{http.StatusNoContent}) {
				t.Errorf("the late request was answered %v", statuses)
			}
			proxy.Set(nil)
			if err := g.Purge(t.Context(), "doc"); err != nil {
				t.Errorf("%s: Purge again = %v", name, err)
			}
			if left := keys(t, b, ""); len(left) > 0 {
				t.Errorf("%s: there is %q", name, left)
			}
		}
	})
}

// Data is written once and never again, so that a repetition takes nothing away: Collect and Purge try again.
func TestLostReplyToTheRemovalOfDataIsNoFailure(t *testing.T) {
	_, bucket := newBucket(t)
	proxy, through := throughProxy(t, bucket)
	g := newGuard(t, through, nil)
	mustPut(t, g, "doc", 5, "a")
	mustPut(t, g, "doc", 6, "b")
	once := func() {
		done := false
		proxy.Set(func(r *http.Request) s3test.Fault {
			if r.Method == http.MethodDelete && isData(r) && !done {
				done = true
				return s3test.LoseReply
			}
			return s3test.Pass
		})
	}
	once()
	if n, err := g.Collect(t.Context(), "doc", 7); n != 1 || err != nil {
		t.Errorf("Collect = %d, %v; want 1", n, err)
	}
	once()
	if err := g.Purge(t.Context(), "doc"); err != nil {
		t.Errorf("Purge = %v", err)
	}
	if left := keys(t, through, ""); len(left) > 0 {
		t.Errorf("there is %q", left)
	}
	// When it fails for good, the object is gone all the same.
	mustPut(t, g, "doc", 5, "a")
	proxy.Set(func(r *http.Request) s3test.Fault {
		if r.Method == http.MethodDelete && isData(r) {
			return s3test.LoseRequest
		}
		return s3test.Pass
	})
	if err := g.Purge(t.Context(), "doc"); err == nil || errors.Is(err, guard.ErrUnknown) || !strings.Contains(err.Error(), "data was left") {
		t.Errorf("Purge = %v; want an error about the data", err)
	}
	proxy.Set(nil)
	if err := g.Purge(t.Context(), "doc"); err != nil {
		t.Errorf("Purge again = %v", err)
	}
}

// refusing answers that it removes nothing.
type refusing struct {
	*membucket.Bucket
	err error
}

func (r *refusing) Delete(ctx context.Context, key string) error {
	if r.err != nil {
		return r.err
	}
	return r.Bucket.Delete(ctx, key)
}

func TestPurgeThatIsRefusedIsCertain(t *testing.T) {
	b := &refusing{Bucket: membucket.New(false)}
	g := newGuard(t, b, nil)
	mustPut(t, g, "doc", 5, "a")
	b.err = blobguard.ErrRefused
	if err := g.Purge(t.Context(), "doc"); !errors.Is(err, blobguard.ErrRefused) || errors.Is(err, guard.ErrUnknown) {
		t.Errorf("Purge = %v; want ErrRefused, and not ErrUnknown", err)
	}
	holds(t, g, "doc", "a", 5)
}
