package blobguard

import (
	"strings"
	"testing"
)

// What is taken for a stamp is written like that again, so no two texts are one stamp.
func FuzzParseStamp(f *testing.F) {
	const good = "fencedlock 1 99 json content 0123456789abcdef0123456789abcdef 0123456789abcdef0123456789abcdef"
	for _, s := range []string{good, "", "fencedlock ", good[1:], good[:len(good)-1], good + " ", strings.ToUpper(good), strings.Replace(good, "abcdef", "ABCDEF", 1),
		strings.Replace(good, "content", "deleted", 1), strings.Replace(good, "content", "gone", 1), strings.Replace(good, "99", "099", 1), strings.Replace(good, "99", "0", 1),
		strings.Replace(good, "1", "2", 1), strings.Replace(good, "99", "9223372036854775808", 1), strings.ReplaceAll(good, " ", "  "), strings.Replace(good, "json", "yaml", 1)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parseStamp(text)
		if err != nil {
			if s != (stamp{}) {
				t.Errorf("%q gives %v and %v", text, s, err)
			}
			return
		}
		if s.String() != text || s.token <= 0 || !stampLike.MatchString(text) {
			t.Errorf("%q is taken for %q", text, s)
		}
	})
}
