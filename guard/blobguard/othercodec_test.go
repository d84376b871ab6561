//go:build unix

package blobguard_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/internal/membucket"
)

// Two programs that disagree about the codec: neither reads the other's document as content, nor writes over it.
func TestObjectOfAnotherCodecIsAnErrorAndStaysAsItIs(t *testing.T) {
	all := append(codecs[:len(codecs):len(codecs)], blobguard.Verbatim())
	for _, adopt := range []bool{false, true} {
		for _, wrote := range all {
			for _, has := range all {
				if wrote == has {
					continue
				}
				b := membucket.New(true)
				mustPut(t, newGuard(t, b, &blobguard.Options{Codec: wrote}), "doc", 5, encode(wrote, "a"))
				before, were := raw(t, b, "doc"), keys(t, b, "")
				g := newGuard(t, b, &blobguard.Options{Codec: has, Adopt: adopt})
				_, getErr := g.Get(t.Context(), "doc")
				_, highestErr := g.Highest(t.Context(), "doc")
				_, collectErr := g.Collect(t.Context(), "doc", 9)
				for op, err := range map[string]error{
					"Get": getErr, "Highest": highestErr, "Put": put(t, g, "doc", 9, encode(has, "b")), "Seal": g.Seal(t.Context(), "doc", 9),
					"Delete": g.Delete(t.Context(), "doc", 9), "Collect": collectErr,
				} {
					if err == nil || errors.Is(err, guard.ErrStale) || errors.Is(err, guard.ErrUnknown) || errors.Is(err, blobguard.ErrNotExist) {
						t.Errorf("%s over %s, adopt %v: %s = %v; want an error that is certain", has, wrote, adopt, op, err)
						continue
					}
					name, _, _ := strings.Cut(wrote.String(), "(\"") // a stamp does not tell the prefix of a comment
					// Verbatim's guard reads the bytes, and their stamp, only to adopt them; Collect is for Pointer.
					says := has == blobguard.Verbatim() || op == "Collect" && has != blobguard.Pointer() ||
						strings.Contains(err.Error(), "written with codec "+name) && strings.Contains(err.Error(), "this guard has "+has.String())
					if !says {
						t.Errorf("%s over %s, adopt %v: %s = %v; want an error that names both codecs", has, wrote, adopt, op, err)
					}
				}
				if now := keys(t, b, ""); raw(t, b, "doc") != before || len(now) != len(were) {
					t.Errorf("%s over %s, adopt %v: there is %q, and the object is %q; want %q, and %q", has, wrote, adopt, now, raw(t, b, "doc"), were, before)
				}
			}
		}
	}
}

// The object is replaced with another codec while this guard knows its version.
func TestKnownObjectThatBecameAnotherCodecsIsNotWrittenOver(t *testing.T) {
	b := membucket.New(false)
	g := newGuard(t, b, &blobguard.Options{Codec: blobguard.JSON()})
	mustPut(t, g, "doc", 5, "{}")
	if err := b.Delete(t.Context(), "doc"); err != nil {
		t.Fatal(err)
	}
	mustPut(t, newGuard(t, b, nil), "doc", 6, "a")
	before := raw(t, b, "doc")
	if err := put(t, g, "doc", 7, "{}"); err == nil || !strings.Contains(err.Error(), "written with codec Pointer(), this guard has JSON()") || !errors.Is(err, guard.ErrUnknown) {
		// A conflict may be the answer to a repetition, after which the other one wrote over it.
		t.Errorf("Put = %v; want an error that names both codecs", err)
	}
	if now := raw(t, b, "doc"); now != before {
		t.Errorf("the object is %q; want %q", now, before)
	}
}

// A document that names another resource's data, as a copy or a forgery does, gives no access to it, and collects none.
func TestPointerFollowsOnlyDataOfItsOwnKey(t *testing.T) {
	b := membucket.New(false)
	g := newGuard(t, b, nil)
	mustPut(t, g, "mine", 5, "mine")
	mustPut(t, g, "other", 5, "secret")
	replace(t, b, "plain", "text")
	own := keys(t, b, "mine.data/")[0]
	document := raw(t, b, "mine")
	for _, data := range []string{keys(t, b, "other.data/")[0], "plain", "mine.data/plain", "mine.data/../other", "mine"} {
		replace(t, b, "mine", strings.Replace(document, own, data, 1))
		fresh := newGuard(t, b, nil)
		if c, _, err := get(t, fresh, "mine"); err == nil || !strings.Contains(err.Error(), "which is not under \"mine.data/\"") {
			t.Errorf("%q: Get = %q, %v; want an error", data, c, err)
		}
		if n, err := fresh.Collect(t.Context(), "mine", 6); n != 0 || err == nil {
			t.Errorf("%q: Collect = %d, %v; want an error", data, n, err)
		}
	}
}
