//go:build unix

package blobguard_test

import (
	"errors"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/internal/membucket"
)

// Any program may leave any object at a guarded key, with anything beside it. It has a mark that is kept, or it is an error
// and stays as it is; what is written under a mark that was read comes back.
func FuzzForeignObject(f *testing.F) {
	far := strings.Repeat("x", 3000)
	for _, codec := range []string{"comment", "json", "pointer", "verbatim"} {
		stamp := strings.Replace(aStamp, "comment", codec, 1)
		after99 := stamp[len("fencedlock 1 99"):]
		for _, object := range []string{"", "a", "\n# " + stamp + "\n", "a\n# " + stamp + "\n", "\n# " + stamp, "\n# fencedlock 2 9\n", "\n# fencedlock 1 0" + after99 + "\n",
			`{"_fence":"` + stamp + `"}`, `{"_fence":"` + stamp + `","a":1}`, `{"_fence":"` + stamp + `" ,"a":1}`, `{"_fence":"` + stamp, `{"_fence":"` + stamp + `"`,
			`{"_fence":"` + stamp + `",`, ` {"_fence":"` + stamp + `","data":"doc.data/x","size":1}`, `{"_fence":"` + stamp + `","data":"x","size":-1}`, `{"_fence":"fencedlock `,
			far + stamp + far, far + "\n# " + stamp + "\n" + far, `{"a":"` + far + `","_fence":"` + stamp + `","b":"` + far + `"}`} {
			f.Add(object, "")
			f.Add(object, stamp)
		}
		f.Add("a", "fencedlock 1 9223372036854775807"+after99)
		f.Add("", strings.Replace(stamp, "content", "deleted", 1))
	}
	b := membucket.New(true)
	f.Fuzz(func(t *testing.T, object, beside string) {
		for _, codec := range []blobguard.Codec{blobguard.Comment("# "), blobguard.JSON(), blobguard.Pointer(), blobguard.Verbatim()} {
			for _, adopt := range []bool{false, true} {
				foreign(t, b, codec, adopt, object, beside)
			}
		}
	})
}

var stampLike = regexp.MustCompile(`fencedlock [0-9]+ [0-9]`)

func foreign(t *testing.T, b *membucket.Bucket, codec blobguard.Codec, adopt bool, object, beside string) {
	plant := func() {
		if err := b.Delete(t.Context(), "doc"); err != nil {
			t.Fatal(err)
		}
		if _, err := b.PutStamped(t.Context(), "doc", strings.NewReader(object), beside, ""); err != nil {
			t.Fatal(err)
		}
	}
	open := func() *blobguard.Guard { return newGuard(t, b, &blobguard.Options{Codec: codec, Adopt: adopt}) }
	plant()
	g := open()
	high, err := g.Highest(t.Context(), "doc")
	_, _, _ = get(t, open(), "doc") // must not panic
	if err != nil {
		if high != 0 {
			t.Errorf("%s: %q beside %q: Highest = %d and %v", codec, object, beside, int64(high), err)
		}
		if err := put(t, open(), "doc", math.MaxInt64, "{}"); err == nil || errors.Is(err, guard.ErrStale) || errors.Is(err, guard.ErrUnknown) {
			t.Errorf("%s: %q beside %q cannot be read (%v), and Put = %v", codec, object, beside, err, err)
		}
		if err := open().Seal(t.Context(), "doc", math.MaxInt64); err == nil {
			t.Errorf("%s: %q beside %q cannot be read, and was sealed", codec, object, beside)
		}
		if got := raw(t, b, "doc"); got != object {
			t.Errorf("%s: %q, which cannot be read, became %q", codec, object, got)
		}
		return
	}
	if high < 0 || high == 0 && !adopt {
		t.Errorf("%s: %q beside %q: Highest = %d", codec, object, beside, int64(high))
	}
	if high == 0 && stampLike.MatchString(object) {
		t.Errorf("%s: %q is taken for one that was never marked", codec, object)
	}
	if high > 1 {
		if err := put(t, g, "doc", high-1, "{}"); !errors.Is(err, guard.ErrStale) {
			t.Errorf("%s: %q beside %q has mark %d, and Put with one less = %v", codec, object, beside, int64(high), err)
		}
	}
	mustPut(t, g, "doc", max(high, 1), `{"a":1}`)
	holds(t, open(), "doc", `{"a":1}`, max(high, 1))
}
