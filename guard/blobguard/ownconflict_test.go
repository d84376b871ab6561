//go:build unix

package blobguard_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/internal/membucket"
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

// What became of a write is read from the object that others have written since: whether it was applied, with its reply lost or
// the refusal of its own repetition for an answer, or never came. Only when many came by several holders, or with the same
// token, nobody can tell.
//
// https://github.com/aws/aws-sdk-java-v2/issues/6580
// https://github.com/apache/hudi/issues/14373
func TestObjectTellsWhatBecameOfAWriteBeforeOthers(t *testing.T) {
	const applied, stale, unknown, again = "applied", "stale", "unknown", "sent again"
	onEach(t, func(t *testing.T, codec blobguard.Codec) {
		b, bucket := newBucket(t)
		proxy, through := throughProxy(t, bucket)
		opts := &blobguard.Options{Codec: codec, Adopt: true}
		g, next := newGuard(t, through, opts), newGuard(t, b, opts)
		for i, c := range []struct {
			then      []guard.Token // write before the look
			came, not string        // what the operation is to return if it was applied before them, and if not
		}{
			{[]guard.Token{6}, applied, stale},
			{[]guard.Token{6, 7, 8}, applied, stale},
			{slices.Repeat([]guard.Token{6}, 12), applied, stale},
			{slices.Concat(slices.Repeat([]guard.Token{6}, 8), []guard.Token{7}), unknown, unknown},
			{[]guard.Token{5}, applied, again},
			{[]guard.Token{5, 5, 6}, applied, stale},
			{slices.Repeat([]guard.Token{5}, 9), unknown, unknown},
		} {
			for f, want := range map[s3test.Fault]string{s3test.LoseReply: c.came, s3test.Repeat: c.came, s3test.LoseRequest: c.not, s3test.Fail: c.not} {
				for op, run := range map[string]func(r string) error{
					"create": func(r string) error { return put(t, g, r, 5, encode(codec, "b")) },
					"adopt":  func(r string) error { return put(t, g, r, 5, encode(codec, "b")) },
					"put":    func(r string) error { return put(t, g, r, 5, encode(codec, "b")) },
					"delete": func(r string) error { return g.Delete(t.Context(), r, 5) },
					"seal":   func(r string) error { return g.Seal(t.Context(), r, 5) },
				} {
					if op != "put" && (len(c.then) > 3 || f == s3test.Fail) {
						continue
					}
					r := fmt.Sprint(op, " ", i, " ", f)
					switch op {
					case "create":
					case "adopt":
						replace(t, b, r, encode(codec, "a"))
					default:
						mustPut(t, g, r, 5, encode(codec, "a"))
					}
					onceWith(proxy, f, func() {
						for _, tok := range c.then {
							alsoPut(t, next, r, tok, encode(codec, "next"))
						}
					})
					err := run(r)
					got := "failed"
					switch unsure := errors.Is(err, guard.ErrUnknown); {
					case err == nil:
						got = applied
					case unsure && !errors.Is(err, guard.ErrStale):
						got = unknown
					case !unsure && errors.Is(err, guard.ErrStale):
						got = stale
					}
					content := encode(codec, "next")
					if want == again {
						content = map[string]string{"create": encode(codec, "b"), "adopt": encode(codec, "b"), "put": encode(codec, "b"), "delete": "", "seal": content}[op]
						if got == applied {
							got = again
						}
					}
					if got != want {
						t.Errorf("%s, fault %d, then %v: %v; want %s", op, f, c.then, err, want)
					}
					holds(t, next, r, content, c.then[len(c.then)-1])
				}
			}
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

// overtaken is a bucket in which somebody else is faster each time.
type overtaken struct {
	*membucket.Bucket
	first func()
}

func (o *overtaken) Put(ctx context.Context, key string, body io.ReadSeeker, expect blobguard.Version) (blobguard.Version, error) {
	if o.first != nil && !strings.Contains(key, ".data/") {
		o.first()
	}
	return o.Bucket.Put(ctx, key, body, expect)
}

// Each of the others' objects shows that the request before it was not applied, so that giving up is certain.
func TestGivingUpAfterOthersIsCertain(t *testing.T) {
	onEach(t, func(t *testing.T, codec blobguard.Codec) {
		b := &overtaken{Bucket: membucket.New(false)}
		opts := &blobguard.Options{Codec: codec, MaxRetries: 3}
		g, other := newGuard(t, b, opts), newGuard(t, b.Bucket, opts)
		b.first = func() { alsoPut(t, other, "doc", 4, encode(codec, "other")) }
		for op, err := range map[string]error{
			"Put": put(t, g, "doc", 5, encode(codec, "a")), "Seal": g.Seal(t.Context(), "doc", 5), "Delete": g.Delete(t.Context(), "doc", 5),
		} {
			if !errors.Is(err, blobguard.ErrBusy) || errors.Is(err, guard.ErrUnknown) {
				t.Errorf("%s = %v; want ErrBusy, and not ErrUnknown", op, err)
			}
		}
		holds(t, other, "doc", encode(codec, "other"), 4)
	})
}
