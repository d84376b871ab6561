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

// A resource whose name looks like another one's data: had it an object there, Collect and Purge of the other one would remove
// it, and its mark.
func TestNoResourceLivesAmongTheDataOfAnother(t *testing.T) {
	const nonce = "0123456789abcdef0123456789abcdef"
	for _, codec := range append(codecs[:len(codecs):len(codecs)], blobguard.Verbatim()) {
		b := membucket.New(true)
		for name, o := range map[string]*blobguard.Options{
			"report.data/2024-" + nonce: {Codec: codec},
			"a/report.data/b/c":         {Codec: codec},
			"2024-" + nonce:             {Codec: codec, Key: func(resource string) string { return "report.data/" + resource }},
			"data/2024-" + nonce:        {Codec: codec, Prefix: "report."},
		} {
			g := newGuard(t, b, o)
			_, getErr := g.Get(t.Context(), name)
			_, highestErr := g.Highest(t.Context(), name)
			for op, err := range map[string]error{
				"Put": put(t, g, name, 5, encode(codec, "a")), "Seal": g.Seal(t.Context(), name, 5), "Delete": g.Delete(t.Context(), name, 5),
				"Purge": g.Purge(t.Context(), name), "Get": getErr, "Highest": highestErr,
			} {
				if err == nil || errors.Is(err, guard.ErrUnknown) || !strings.Contains(err.Error(), `ends in ".data"`) || !strings.Contains(err.Error(), "give Options.Key") {
					t.Errorf("%s of %q with %s = %v; want an error that says why", op, name, codec, err)
				}
			}
		}
		if left := keys(t, b, ""); len(left) > 0 {
			t.Errorf("%s: there is %q", codec, left)
		}
		if _, err := blobguard.New(t.Context(), b, &blobguard.Options{Codec: codec, Prefix: "report.data/"}); err == nil || !strings.Contains(err.Error(), "Options.Prefix") {
			t.Errorf("%s: New with a prefix of data = %v; want an error that names it", codec, err)
		}
		g := newGuard(t, b, &blobguard.Options{Codec: codec})
		for _, name := range []string{"report.data", "a.database/b", "data/a", "a/b.data"} { // these collide with nothing
			mustPut(t, g, name, 5, encode(codec, "a"))
		}
	}
}

// What lies under the prefix of the data and was not written as data stays.
func TestOnlyDataIsCollectedAndPurged(t *testing.T) {
	b := membucket.New(false)
	g := newGuard(t, b, nil)
	mustPut(t, g, "doc", 4, "a")
	others := []string{
		"doc.data/2-quarterly-results-for-the-board-", "doc.data/2-0123456789ABCDEF0123456789abcdef", "doc.data/2-0123456789abcdef/123456789abcdef", "doc.data/2-0123456789abcdef0123456789abcdef0",
		"doc.data/02-0123456789abcdef0123456789abcdef", "doc.data/x.data/2-0123456789abcdef0123456789abcdef",
	}
	for _, k := range others {
		replace(t, b, k, "not the guard's")
	}
	if n, err := g.Collect(t.Context(), "doc", 5); n != 0 || err != nil {
		t.Errorf("Collect = %d, %v; want 0", n, err)
	}
	if err := g.Purge(t.Context(), "doc"); err != nil {
		t.Fatal(err)
	}
	if left := keys(t, b, ""); len(left) != len(others) {
		t.Errorf("there is %q; want %q", left, others)
	}
}
