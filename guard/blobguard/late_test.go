//go:build unix

package blobguard_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/internal/s3test"
)

// isData tells whether a request is about the data of a pointer.
func isData(r *http.Request) bool { return strings.Contains(r.URL.Path, ".data/") }

// delayed makes the next PUT of an object late: its sender is cut off, and it arrives at Release.
func delayed(p *s3test.Proxy) {
	done := false
	p.Set(func(r *http.Request) s3test.Fault {
		if r.Method == http.MethodPut && !isData(r) && !done {
			done = true
			return s3test.DelayRequest
		}
		return s3test.Pass
	})
}

// arriveLate lets them arrive, and checks that none was applied.
func arriveLate(t *testing.T, p *s3test.Proxy) {
	t.Helper()
	statuses := p.Release()
	if len(statuses) == 0 || slices.ContainsFunc(statuses, func(s int) bool { return s < 400 }) {
		t.Errorf("the late request was answered %v; want 412", statuses)
	}
}

// A request that its sender took for lost arrives after everything: after the retry, and after the next holders have written
// the same content again.
func TestLateRequestFindsItsConditionGone(t *testing.T) {
	onEach(t, func(t *testing.T, codec blobguard.Codec) {
		for _, first := range []bool{true, false} {
			b, bucket := newBucket(t)
			proxy, through := throughProxy(t, bucket)
			opts := &blobguard.Options{Codec: codec}
			g, next := newGuard(t, through, opts), newGuard(t, b, opts)
			if !first {
				mustPut(t, g, "doc", 5, encode(codec, "a"))
			}
			delayed(proxy)
			mustPut(t, g, "doc", 5, encode(codec, "b")) // the retry comes through
			arriveLate(t, proxy)
			holds(t, next, "doc", encode(codec, "b"), 5)

			delayed(proxy)
			mustPut(t, g, "doc", 5, encode(codec, "c"))
			mustPut(t, g, "doc", 5, encode(codec, "b")) // the very content that the late request was to replace
			mustPut(t, next, "doc", 6, encode(codec, "b"))
			arriveLate(t, proxy)
			holds(t, next, "doc", encode(codec, "b"), 6)
		}
	})
}

// After ErrUnknown the write may still be on its way; a Seal with the same token makes sure that it does not land any more.
func TestSealEndsTheUncertaintyAfterAnUnknownWrite(t *testing.T) {
	onEach(t, func(t *testing.T, codec blobguard.Codec) {
		b, bucket := newBucket(t)
		proxy, through := throughProxy(t, bucket)
		g, other := newGuard(t, through, &blobguard.Options{Codec: codec, MaxRetries: 1}), newGuard(t, b, &blobguard.Options{Codec: codec})
		mustPut(t, g, "doc", 5, encode(codec, "a"))
		proxy.Set(func(r *http.Request) s3test.Fault {
			if r.Method == http.MethodPut && !isData(r) {
				return s3test.DelayRequest
			}
			return s3test.Pass
		})
		if err := put(t, g, "doc", 5, encode(codec, "b")); !errors.Is(err, guard.ErrUnknown) {
			t.Fatalf("Put = %v; want ErrUnknown", err)
		}
		proxy.Set(nil)
		if err := g.Seal(t.Context(), "doc", 5); err != nil {
			t.Fatal(err)
		}
		holds(t, other, "doc", encode(codec, "a"), 5)
		arriveLate(t, proxy)
		holds(t, other, "doc", encode(codec, "a"), 5)
	})
}

// The write of a stalled holder is to create what is not there yet. Meanwhile the next one creates, deletes and cleans up, so
// that it is not there again.
//
// https://github.com/slatedb/slatedb/issues/352
// https://github.com/delta-io/delta/issues/1410
func TestStalledCreatorDoesNotFindItsPlaceFreeAgain(t *testing.T) {
	onEach(t, func(t *testing.T, codec blobguard.Codec) {
		b, bucket := newBucket(t)
		proxy, through := throughProxy(t, bucket)
		stalled := newGuard(t, through, &blobguard.Options{Codec: codec, MaxRetries: 1})
		next := newGuard(t, b, &blobguard.Options{Codec: codec})
		proxy.Set(func(r *http.Request) s3test.Fault {
			if r.Method == http.MethodPut && !isData(r) {
				return s3test.DelayRequest
			}
			return s3test.Pass
		})
		if err := put(t, stalled, "log/17", 5, encode(codec, "by 5")); !errors.Is(err, guard.ErrUnknown) {
			t.Fatalf("Put = %v; want ErrUnknown", err)
		}
		mustPut(t, next, "log/17", 6, encode(codec, "by 6"))
		if err := next.Delete(t.Context(), "log/17", 6); err != nil {
			t.Fatal(err)
		}
		if codec == blobguard.Pointer() {
			if _, err := next.Collect(t.Context(), "log/17", 7); err != nil {
				t.Fatal(err)
			}
		}
		arriveLate(t, proxy)
		proxy.Set(nil)
		if err := put(t, stalled, "log/17", 5, encode(codec, "by 5")); !errors.Is(err, guard.ErrStale) {
			t.Errorf("Put of the stalled holder = %v; want ErrStale", err)
		}
		if c, mark, err := get(t, next, "log/17"); c != "" || mark < 6 || err != nil {
			t.Errorf("Get = %q, %d, %v; want nothing, with a mark", c, int64(mark), err)
		}
	})
}

// The control: create-if-absent on a numbered name alone, with a cleaner, is no fence.
func TestCreateIfAbsentAloneLosesToTheCleaner(t *testing.T) {
	s := s3test.Shared(t)
	bucket := s.Bucket(t)
	proxy := s3test.NewProxy(t, s.Address())
	create := func(address, content string) error {
		_, err := s3test.NewClient(t, address).PutObject(t.Context(), &s3.PutObjectInput{Bucket: &bucket, Key: aws.String("log/17"), IfNoneMatch: aws.String("*"),
			Body: strings.NewReader(content)}, func(o *s3.Options) { o.Retryer = aws.NopRetryer{} })
		return err
	}
	delayed(proxy)
	if err := create(proxy.Address(), "by 5"); err == nil {
		t.Fatal("the first create was not delayed")
	}
	if err := create(s.Address(), "by 6"); err != nil {
		t.Fatal(err)
	}
	if _, err := s3test.NewClient(t, s.Address()).DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &bucket, Key: aws.String("log/17")}); err != nil {
		t.Fatal(err)
	}
	if statuses := proxy.Release(); !slices.Equal(statuses, []int{http.StatusOK}) {
		t.Errorf("the late create was answered %v; without a guard it must get through, or this story tests nothing", statuses)
	}
}
