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

func TestObjectWithoutStampIsRefusedUnlessAdopted(t *testing.T) {
	for _, codec := range append(codecs, blobguard.Verbatim()) {
		b := membucket.New(true)
		plain := encode(codec, strings.Repeat("plain", 30_000)) // more than one read
		for _, key := range []string{"put", "sealed", "deleted"} {
			replace(t, b, key, plain)
		}
		strict := newGuard(t, b, &blobguard.Options{Codec: codec})
		refused := func(op string, err error) {
			t.Helper()
			if err == nil || errors.Is(err, blobguard.ErrNotExist) || errors.Is(err, guard.ErrUnknown) || !strings.Contains(err.Error(), "Options.Adopt") {
				t.Errorf("%s: %s = %v; want an error that names Options.Adopt", codec, op, err)
			}
		}
		_, err := strict.Highest(t.Context(), "put")
		refused("Highest", err)
		_, _, err = get(t, strict, "put")
		refused("Get", err)
		refused("Put", put(t, strict, "put", 5, plain))
		refused("Seal", strict.Seal(t.Context(), "put", 5))
		refused("Delete", strict.Delete(t.Context(), "put", 5))
		if raw(t, b, "put") != plain {
			t.Errorf("%s: the object was changed", codec)
		}

		g := newGuard(t, b, &blobguard.Options{Codec: codec, Adopt: true})
		holds(t, g, "put", plain, 0)
		mustPut(t, g, "put", 5, encode(codec, "new"))
		holds(t, strict, "put", encode(codec, "new"), 5)
		if err := g.Seal(t.Context(), "sealed", 6); err != nil {
			t.Errorf("%s: Seal = %v", codec, err)
		}
		holds(t, strict, "sealed", plain, 6)
		if err := g.Delete(t.Context(), "deleted", 7); err != nil {
			t.Errorf("%s: Delete = %v", codec, err)
		}
		holds(t, strict, "deleted", "", 7)
	}
}

// A stamp of another codec, or one deep inside, is a mark all the same: adopting the object would lose it.
func TestAdoptDoesNotPassOverAStampElsewhere(t *testing.T) {
	stamped := map[blobguard.Codec]string{}
	for _, codec := range codecs {
		b := membucket.New(false)
		mustPut(t, newGuard(t, b, &blobguard.Options{Codec: codec}), "doc", 5, encode(codec, "a"))
		stamped[codec] = raw(t, b, "doc")
	}
	for _, codec := range append(codecs, blobguard.Comment("// "), blobguard.Verbatim()) {
		for from, text := range stamped {
			lines := strings.Repeat("x\n", 100_000)
			for _, c := range []string{text, lines + text + lines, strings.Repeat("x", 32<<10-20) + text + strings.Repeat("x", 3000)} {
				if c == text && codec == from {
					continue // that is where it belongs
				}
				b := membucket.New(true)
				replace(t, b, "doc", c)
				g := newGuard(t, b, &blobguard.Options{Codec: codec, Adopt: true})
				if err := put(t, g, "doc", 9, encode(codec, "b")); err == nil || !strings.Contains(err.Error(), "fencedlock 1 5") && !strings.Contains(err.Error(), "written with codec") {
					t.Errorf("%s adopts an object of %s (%d bytes): %v; want an error that shows the stamp, or names its codec", codec, from, len(c), err)
				}
			}
		}
	}
}
