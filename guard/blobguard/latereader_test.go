//go:build unix

package blobguard_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/internal/membucket"
)

// meeting is a bucket in which something happens between a read and its answer, or before the read.
type meeting struct {
	*membucket.Bucket
	meet  func() // before the next answer
	early func() // before the next read
}

func (m *meeting) Get(ctx context.Context, key string, offset, length int64) (blobguard.Object, error) {
	if early := m.early; early != nil {
		m.early = nil
		early()
	}
	o, err := m.Bucket.Get(ctx, key, offset, length)
	if meet := m.meet; meet != nil {
		m.meet = nil
		meet()
	}
	return o, err
}

// A reader gets its answer after the resource was purged, and perhaps begun anew. Its mark is one of then.
func TestLateReaderDoesNotBringBackWhatWasPurged(t *testing.T) {
	onEach(t, func(t *testing.T, codec blobguard.Codec) {
		for name, anew := range map[string]bool{"purged": false, "begun anew": true} {
			b := &meeting{Bucket: membucket.New(false)}
			g := newGuard(t, b, &blobguard.Options{Codec: codec})
			mustPut(t, g, "doc", 10, encode(codec, "a"))
			purge := func() {
				if err := g.Purge(t.Context(), "doc"); err != nil {
					t.Error(err)
				}
				if anew {
					alsoPut(t, g, "doc", 2, encode(codec, "b"))
				}
			}
			b.meet = purge
			if _, err := g.Highest(t.Context(), "doc"); err != nil {
				t.Errorf("%s: Highest = %v", name, err)
			}
			if err := put(t, g, "doc", 3, encode(codec, "c")); err != nil {
				t.Errorf("%s: Put = %v; want nil, the mark of 10 was purged", name, err)
			}
			mustPut(t, g, "doc", 10, encode(codec, "a"))
			b.early = purge
			if _, err := g.Highest(t.Context(), "doc"); err != nil {
				t.Errorf("%s: Highest = %v; want nil, the mark of 10 was not lost", name, err)
			}
			// The other way round: it began after the purge, and what it misses has not been lost.
			if err := g.Purge(t.Context(), "doc"); err != nil {
				t.Fatal(err)
			}
			b.meet = func() { alsoPut(t, g, "doc", 4, encode(codec, "d")) }
			if m, err := g.Highest(t.Context(), "doc"); m != 0 || err != nil {
				t.Errorf("%s: Highest = %d, %v; want 0, which was there when it read", name, int64(m), err)
			}
		}
	})
}

// A reader's answer comes after later writes of the same guard, which must not go back to a version of then: a conflict with
// itself would be many writes with one token.
func TestLateReaderDoesNotMakeAWriterForgetItsOwn(t *testing.T) {
	b := &meeting{Bucket: membucket.New(false)}
	g := newGuard(t, b, &blobguard.Options{Codec: blobguard.JSON()})
	mustPut(t, g, "doc", 5, "{}")
	b.meet = func() {
		for range 12 {
			alsoPut(t, g, "doc", 5, "{}")
		}
	}
	if _, err := g.Highest(t.Context(), "doc"); err != nil {
		t.Fatal(err)
	}
	mustPut(t, g, "doc", 5, "{}")
}

// While a large object is looked through to be adopted, another holder adopts and replaces it. That is no failure of the newer
// one, nor of its reads.
func TestObjectReplacedWhileItIsAdoptedIsLookedAtAgain(t *testing.T) {
	for _, codec := range []blobguard.Codec{blobguard.Comment("# "), blobguard.JSON(), blobguard.Pointer()} {
		for op, run := range map[string]func(g *blobguard.Guard) error{
			"Put":     func(g *blobguard.Guard) error { return put(t, g, "doc", 5, encode(codec, "z")) },
			"Seal":    func(g *blobguard.Guard) error { return g.Seal(t.Context(), "doc", 5) },
			"Delete":  func(g *blobguard.Guard) error { return g.Delete(t.Context(), "doc", 5) },
			"Highest": func(g *blobguard.Guard) error { _, err := g.Highest(t.Context(), "doc"); return err },
			"Get":     func(g *blobguard.Guard) error { _, _, err := get(t, g, "doc"); return err },
		} {
			b := &meeting{Bucket: membucket.New(false)}
			opts := &blobguard.Options{Codec: codec, Adopt: true}
			g, other := newGuard(t, b, opts), newGuard(t, b.Bucket, opts)
			large := encode(codec, strings.Repeat("x\n", 10_000))
			replace(t, b, "doc", large)
			b.meet = func() { alsoPut(t, other, "doc", 4, large) }
			if err := run(g); err != nil {
				t.Errorf("%s, %s = %v; want nil", codec, op, err)
			}
		}
	}
}

// A Seal finds the object replaced when it comes to read its content, and from then on cannot read it at all. No request was
// complete.
func TestSealThatHasSentNothingIsCertain(t *testing.T) {
	m := &meeting{Bucket: membucket.New(false)}
	b := &failing{meeting: m, left: 10}
	opts := &blobguard.Options{Codec: blobguard.Comment("# "), MaxRetries: 1}
	g, other := newGuard(t, b, opts), newGuard(t, m.Bucket, opts)
	mustPut(t, other, "doc", 5, strings.Repeat("x", 10_000))
	b.left = 2
	m.meet = func() { alsoPut(t, other, "doc", 6, strings.Repeat("y", 10_000)) }
	if err := g.Seal(t.Context(), "doc", 7); !errors.Is(err, errNoRead) || errors.Is(err, guard.ErrUnknown) || b.left >= 0 {
		t.Errorf("Seal = %v; want the read's error, and not ErrUnknown", err)
	}
}

// failing is a bucket whose reads fail after some.
type failing struct {
	*meeting
	left int
}

var errNoRead = errors.New("no read")

func (f *failing) Get(ctx context.Context, key string, offset, length int64) (blobguard.Object, error) {
	if f.left--; f.left < 0 {
		return blobguard.Object{}, errNoRead
	}
	return f.meeting.Get(ctx, key, offset, length)
}

// A holder that was away for long looks before it writes, so that it is told that it is stale however many others have come.
// A conflict alone would leave it unknown.
func TestHolderThatWasAwayLooksFirst(t *testing.T) {
	onEach(t, func(t *testing.T, codec blobguard.Codec) {
		synctest.Test(t, func(t *testing.T) {
			b := membucket.New(false)
			g, next := newGuard(t, b, &blobguard.Options{Codec: codec}), newGuard(t, b, &blobguard.Options{Codec: codec})
			mustPut(t, g, "doc", 5, encode(codec, "a"))
			for tok := guard.Token(6); tok < 30; tok++ {
				mustPut(t, next, "doc", tok, encode(codec, "next"))
			}
			time.Sleep(6 * time.Second)
			var stale *guard.StaleError
			if err := put(t, g, "doc", 5, encode(codec, "late")); !errors.As(err, &stale) || stale.Highest != 29 || errors.Is(err, guard.ErrUnknown) {
				t.Errorf("Put = %v; want stale after 29", err)
			}
			holds(t, next, "doc", encode(codec, "next"), 29)
		})
	})
}
