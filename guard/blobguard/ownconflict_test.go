//go:build unix

package blobguard_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/internal/s3test"
)

// onceWith makes one fault strike the next PUT of an object, and after it runs then before the next request, which is the
// guard's look at what has become of it.
func onceWith(p *s3test.Proxy, f s3test.Fault, then func()) {
	state := 0
	p.Set(func(r *http.Request) s3test.Fault {
		switch {
		case state == 0 && r.Method == http.MethodPut && !isData(r):
			state = 1
			return f
		case state == 1:
			state = 2
			if then != nil {
				then()
			}
		}
		return s3test.Pass
	})
}

// A PUT is applied, and it or its repetition is answered 412, or not at all. To take that for a newer holder's doing makes
// the holder give up what it has written.
//
// https://github.com/aws/aws-sdk-java-v2/issues/6580
// https://github.com/apache/hudi/issues/14373
func TestOwnWriteThatLooksLikeAConflictIsApplied(t *testing.T) {
	onEach(t, func(t *testing.T, codec blobguard.Codec) {
		for name, f := range map[string]s3test.Fault{"sent twice, second answer": s3test.Repeat, "reply lost": s3test.LoseReply} {
			b, bucket := newBucket(t)
			proxy, through := throughProxy(t, bucket)
			opts := &blobguard.Options{Codec: codec}
			g, other := newGuard(t, through, opts), newGuard(t, b, opts)
			for tok, op := range []func(content string, tok guard.Token) error{
				func(c string, tok guard.Token) error { return put(t, g, "doc", tok, c) }, // creates
				func(c string, tok guard.Token) error { return put(t, g, "doc", tok, c) }, // replaces
				func(_ string, tok guard.Token) error { return g.Seal(t.Context(), "doc", tok) },
				func(_ string, tok guard.Token) error { return g.Delete(t.Context(), "doc", tok) },
				func(_ string, tok guard.Token) error { return g.Seal(t.Context(), "doc", tok) },
			} {
				tok := guard.Token(tok + 5)
				content := encode(codec, tok.String())
				onceWith(proxy, f, nil)
				if err := op(content, tok); err != nil {
					t.Errorf("%s, token %d: %v; want nil, it was applied", name, int64(tok), err)
				}
				switch tok {
				case 7:
					content = encode(codec, "6")
				case 8, 9:
					content = ""
				}
				holds(t, other, "doc", content, tok)
			}
		}
	})
}

// The next holder seals before the first one has looked what became of its write. The seal took the write along, and says so.
func TestLostReplyOfAWriteThatWasSealedSinceIsApplied(t *testing.T) {
	onEach(t, func(t *testing.T, codec blobguard.Codec) {
		b, bucket := newBucket(t)
		proxy, through := throughProxy(t, bucket)
		opts := &blobguard.Options{Codec: codec}
		g, next := newGuard(t, through, opts), newGuard(t, b, opts)
		mustPut(t, g, "doc", 5, encode(codec, "a"))
		onceWith(proxy, s3test.LoseReply, func() {
			if err := next.Seal(t.Context(), "doc", 6); err != nil {
				t.Error(err)
			}
		})
		if err := put(t, g, "doc", 5, encode(codec, "b")); err != nil {
			t.Errorf("Put = %v; want nil: the newer mark covers the very content that it wrote", err)
		}
		holds(t, next, "doc", encode(codec, "b"), 6)
		var stale *guard.StaleError
		if err := put(t, g, "doc", 5, encode(codec, "c")); !errors.As(err, &stale) || stale.Highest != 6 {
			t.Errorf("the next Put = %v; want stale after 6", err)
		}
	})
}

// A newer holder's content says nothing about a write whose reply was lost before it.
func TestStaleAnswerAfterALostReplyIsUnknown(t *testing.T) {
	onEach(t, func(t *testing.T, codec blobguard.Codec) {
		for name, c := range map[string]struct {
			fault s3test.Fault
			tok   guard.Token
		}{
			"applied, then a higher token":   {s3test.LoseReply, 6},
			"lost, then a higher token":      {s3test.LoseRequest, 6},
			"applied, then the same token":   {s3test.LoseReply, 5},
			"lost, then the same token":      {s3test.LoseRequest, 5},
			"not asked, then a higher token": {s3test.Fail, 6},
		} {
			b, bucket := newBucket(t)
			proxy, through := throughProxy(t, bucket)
			opts := &blobguard.Options{Codec: codec}
			g, next := newGuard(t, through, opts), newGuard(t, b, opts)
			mustPut(t, g, "doc", 5, encode(codec, "a"))
			onceWith(proxy, c.fault, func() { alsoPut(t, next, "doc", c.tok, encode(codec, "next")) })
			err := put(t, g, "doc", 5, encode(codec, "b"))
			if !errors.Is(err, guard.ErrUnknown) || errors.Is(err, guard.ErrStale) {
				t.Errorf("%s: Put = %v; want ErrUnknown, and not ErrStale", name, err)
			}
			holds(t, next, "doc", encode(codec, "next"), c.tok)
		}
	})
}

// Without a lost reply the same meeting is stale, and certain.
func TestConflictWithANewerHolderIsStale(t *testing.T) {
	onEach(t, func(t *testing.T, codec blobguard.Codec) {
		b, bucket := newBucket(t)
		proxy, through := throughProxy(t, bucket)
		opts := &blobguard.Options{Codec: codec}
		g, next := newGuard(t, through, opts), newGuard(t, b, opts)
		mustPut(t, g, "doc", 5, encode(codec, "a"))
		done := false
		proxy.Set(func(r *http.Request) s3test.Fault { // between the guard's decision and the server's
			if r.Method == http.MethodPut && !isData(r) && !done {
				done = true
				alsoPut(t, next, "doc", 9, encode(codec, "next"))
			}
			return s3test.Pass
		})
		var stale *guard.StaleError
		if err := put(t, g, "doc", 5, encode(codec, "late")); !errors.As(err, &stale) || stale.Highest != 9 || errors.Is(err, guard.ErrUnknown) {
			t.Errorf("Put = %v; want stale after 9", err)
		}
		holds(t, next, "doc", encode(codec, "next"), 9)
	})
}

// A lower holder's write in between is no reason to give up: the higher token goes through.
func TestConflictWithAnEarlierHolderIsTriedAgain(t *testing.T) {
	onEach(t, func(t *testing.T, codec blobguard.Codec) {
		for _, f := range []s3test.Fault{s3test.Pass, s3test.LoseRequest} {
			b, bucket := newBucket(t)
			proxy, through := throughProxy(t, bucket)
			opts := &blobguard.Options{Codec: codec}
			g, before := newGuard(t, through, opts), newGuard(t, b, opts)
			mustPut(t, before, "doc", 5, encode(codec, "a"))
			done := false
			proxy.Set(func(r *http.Request) s3test.Fault {
				if r.Method == http.MethodPut && !isData(r) && !done {
					done = true
					alsoPut(t, before, "doc", 5, encode(codec, "b"))
					return f
				}
				return s3test.Pass
			})
			if err := put(t, g, "doc", 9, encode(codec, "c")); err != nil {
				t.Errorf("Put = %v; want nil", err)
			}
			holds(t, before, "doc", encode(codec, "c"), 9)
		}
	})
}
