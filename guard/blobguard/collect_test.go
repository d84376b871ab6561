//go:build unix

package blobguard_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/internal/membucket"
	"github.com/fencedlock/fencedlock/internal/s3test"
)

// Only a holder that has sealed may take data away: below its token nobody can make the pointer name any of it again.
func TestCollectTakesOnlyWhatNobodyCanReadAgain(t *testing.T) {
	b, _ := newBucket(t)
	g := newGuard(t, b, nil)
	for tok := guard.Token(3); tok <= 6; tok++ {
		mustPut(t, g, "doc", tok, tok.String())
	}
	mustPut(t, g, "doc", 6, "6 again")
	mustPut(t, g, "other", 1, "other")
	for _, k := range []string{"doc.data/1-by-hand", "doc.data/readme", "doc.data/x/1-0123456789abcdef0123456789abcdef"} {
		replace(t, b, k, "not the guard's")
	}
	count := func(want int) {
		t.Helper()
		if got := keys(t, b, "doc.data/"); len(got) != want {
			t.Errorf("there are %d: %q; want %d", len(got), got, want)
		}
	}
	count(5 + 3)
	if n, err := g.Collect(t.Context(), "doc", 5); n != 0 || !errors.Is(err, guard.ErrStale) {
		t.Errorf("Collect by an earlier holder = %d, %v; want ErrStale", n, err)
	}
	count(8)
	if n, err := g.Collect(t.Context(), "doc", 6); n != 3 || err != nil { // 3, 4, 5
		t.Errorf("Collect = %d, %v; want 3", n, err)
	}
	count(5)
	holds(t, g, "doc", "6 again", 6)
	if n, err := g.Collect(t.Context(), "doc", 7); n != 1 || err != nil { // the first of 6
		t.Errorf("Collect = %d, %v; want 1", n, err)
	}
	holds(t, g, "doc", "6 again", 7) // of a lower token, and in use
	if err := g.Delete(t.Context(), "doc", 8); err != nil {
		t.Fatal(err)
	}
	if n, err := g.Collect(t.Context(), "doc", 8); n != 1 || err != nil {
		t.Errorf("Collect of a deleted one = %d, %v; want 1", n, err)
	}
	holds(t, g, "doc", "", 8)
	count(3)
	holds(t, g, "other", "other", 1)
	if n, err := g.Collect(t.Context(), "never", 8); n != 0 || err != nil {
		t.Errorf("Collect of what never was = %d, %v", n, err)
	}
	holds(t, g, "never", "", 8)
	mustPut(t, g, "doc", 9, "9")
	if err := g.Purge(t.Context(), "doc"); err != nil {
		t.Fatal(err)
	}
	count(3)
	holds(t, g, "doc", "", 0)
	if _, err := newGuard(t, b, &blobguard.Options{Codec: blobguard.JSON()}).Collect(t.Context(), "doc", 9); err == nil {
		t.Error("Collect without pointers = nil; want an error")
	}
}

// A writer is paused between its data and its pointer; the next holder collects the data. The pointer must not come to name
// what is gone.
func TestDataCollectedUnderAWriterIsNeverNamed(t *testing.T) {
	b, bucket := newBucket(t)
	proxy, through := throughProxy(t, bucket)
	g, next := newGuard(t, through, nil), newGuard(t, b, nil)
	mustPut(t, g, "doc", 5, "a")
	done := false
	proxy.Set(func(r *http.Request) s3test.Fault {
		if r.Method == http.MethodPut && !isData(r) && !done {
			done = true
			if n, err := next.Collect(t.Context(), "doc", 6); n != 1 || err != nil {
				t.Errorf("Collect = %d, %v; want the data that no pointer names yet", n, err)
			}
		}
		return s3test.Pass
	})
	if err := put(t, g, "doc", 5, "b"); !errors.Is(err, guard.ErrStale) {
		t.Errorf("Put = %v; want ErrStale", err)
	}
	holds(t, next, "doc", "a", 6)
}

// Between a reader's look at the pointer and at the data, both are replaced and the old data is collected.
func TestReaderOfCollectedDataReadsThePointerAgain(t *testing.T) {
	b, bucket := newBucket(t)
	proxy, through := throughProxy(t, bucket)
	reader, next := newGuard(t, through, nil), newGuard(t, b, nil)
	mustPut(t, next, "doc", 5, "a")
	done := false
	proxy.Set(func(r *http.Request) s3test.Fault {
		if r.Method == http.MethodGet && isData(r) && !done {
			done = true
			alsoPut(t, next, "doc", 6, "b")
			if _, err := next.Collect(t.Context(), "doc", 7); err != nil {
				t.Error(err)
			}
		}
		return s3test.Pass
	})
	if c, _, err := get(t, reader, "doc"); c != "b" || err != nil || !done {
		t.Errorf("Get = %q, %v; want what replaced it", c, err)
	}
	proxy.Set(nil)
	for _, k := range keys(t, b, "doc.data/") { // and when it is no collection, it says so instead of trying for ever
		if err := b.Delete(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := get(t, reader, "doc"); err == nil || errors.Is(err, blobguard.ErrNotExist) || !strings.Contains(err.Error(), "gone") {
		t.Errorf("Get = %v; want an error that says that the data is gone", err)
	}
}

// The reply to the data is lost; it is found again, and not taken for somebody else's.
func TestLostReplyOfDataIsNoConflict(t *testing.T) {
	b, bucket := newBucket(t)
	proxy, through := throughProxy(t, bucket)
	g := newGuard(t, through, nil)
	for _, f := range []s3test.Fault{s3test.LoseReply, s3test.LoseRequest, s3test.Repeat, s3test.Fail} {
		proxy.Once(f)
		mustPut(t, g, "doc", 5, "content")
		holds(t, g, "doc", "content", 5)
	}
	if got := keys(t, b, "doc.data/"); len(got) != 4 {
		t.Errorf("there are %q; want one for each Put", got)
	}
	// Without data there is no pointer, and certainly nothing was written.
	proxy.Set(func(r *http.Request) s3test.Fault {
		if isData(r) {
			return s3test.LoseRequest
		}
		return s3test.Pass
	})
	few := newGuard(t, through, &blobguard.Options{MaxRetries: 1})
	if err := put(t, few, "doc", 5, "more"); err == nil || errors.Is(err, guard.ErrUnknown) || errors.Is(err, guard.ErrStale) {
		t.Errorf("Put = %v; want an error that is neither unknown nor stale", err)
	}
	proxy.Set(nil)
	holds(t, g, "doc", "content", 5)
}

// Writers, readers and collectors at once: whoever reads finds all of one content, that of the token which comes with it.
func TestReadersNeverMissDataWhileItIsCollected(t *testing.T) {
	s3, _ := newBucket(t)
	for name, c := range map[string]struct {
		b    blobguard.Bucket
		last guard.Token
	}{"memory": {membucket.New(false), 600}, "S3": {s3, 60}} {
		t.Run(name, func(t *testing.T) {
			content := func(tok guard.Token) string { return strings.Repeat(tok.String()+"\n", 1000) }
			g := newGuard(t, c.b, nil)
			mustPut(t, g, "doc", 2, content(2))
			var wg sync.WaitGroup
			stop := make(chan struct{})
			wg.Go(func() {
				defer close(stop)
				for tok := guard.Token(4); tok <= c.last; tok += 2 {
					alsoPut(t, g, "doc", tok, content(tok))
					if n, err := g.Collect(t.Context(), "doc", tok+1); n != 1 || err != nil {
						t.Errorf("Collect = %d, %v; want 1", n, err)
					}
				}
			})
			for range 3 {
				wg.Go(func() {
					other := newGuard(t, c.b, nil)
					for n := 0; ; n++ {
						select {
						case <-stop:
							if n == 0 {
								t.Error("a reader has read nothing")
							}
							return
						default:
						}
						v, err := other.Get(t.Context(), "doc")
						if err != nil {
							t.Error(err)
							return
						}
						got, err := io.ReadAll(v.Body)
						if want := content(v.Token &^ 1); errors.Join(err, v.Body.Close()) != nil || string(got) != want { // the Collect is one above
							t.Errorf("read %.20q of %d bytes with token %d, %v; want %.20q of %d", got, len(got), int64(v.Token), err, want, len(want))
							return
						}
					}
				})
			}
			wg.Wait()
			if got := keys(t, c.b, "doc.data/"); len(got) != 1 {
				t.Errorf("%d objects of data are left; want 1", len(got))
			}
		})
	}
}
