package fencing_test

import (
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/internal/fencing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParseTakesOneOfEachInItsOnlyForm(t *testing.T) {
	one := []string{"9"}
	name := []string{"account/1"}
	if r, tok, err := fencing.Parse(one, name); r != "account/1" || tok != 9 || err != nil {
		t.Errorf("Parse = %q, %d, %v", r, tok, err)
	}
	for _, c := range []struct {
		what              string
		tokens, resources []string
		missing, noToken  bool
	}{
		{"nothing", nil, nil, true, true},
		{"no token", nil, name, true, true},
		{"no resource", one, nil, false, false},
		{"two tokens", []string{"5", "9"}, name, false, true},
		{"the same token twice", []string{"9", "9"}, name, false, true},
		{"two resources", one, []string{"a", "b"}, false, false},
		{"an empty token", []string{""}, name, false, true},
		{"joined tokens", []string{"5, 9"}, name, false, true},
		{"joined resources", one, []string{"a, b"}, false, false},
		{"an empty resource", one, []string{""}, false, false},
	} {
		r, tok, err := fencing.Parse(c.tokens, c.resources)
		if r != "" || tok != 0 || err == nil || errors.Is(err, fencing.ErrMissing) != c.missing || errors.Is(err, guard.ErrNoToken) != c.noToken {
			t.Errorf("%s: Parse = %q, %d, %v", c.what, r, tok, err)
		}
	}
}

func TestNamesHaveOneForm(t *testing.T) {
	for name, want := range map[string]string{
		"account/1":  "account/1",
		"A-z_0.9~/":  "A-z_0.9~/",
		"permit#3":   "permit%233",
		"a, b":       "a%2C%20b",
		"100%":       "100%25",
		"café\n":     "caf%C3%A9%0A",
		"\U0001f512": "%F0%9F%94%92",
	} {
		if got := fencing.Escape(name); got != want {
			t.Errorf("Escape(%q) = %q; want %q", name, got, want)
		}
		if got, err := fencing.Unescape(want); got != name || err != nil {
			t.Errorf("Unescape(%q) = %q, %v", want, got, err)
		}
	}
	for _, s := range []string{
		"", "a b", "a,b", "a:b", "a+b", "a+2Cb", "a:3Ab", "é", "%", "%2", "a%", "%2c", "%c3%A9", "%61", "%2F", "%7E", "%zz", "%%41",
		"%00", "%FF", "%C3", strings.Repeat("a", 513), strings.Repeat("%0A", 513), " a", "a\t",
	} {
		if got, err := fencing.Unescape(s); got != "" || err == nil || len(err.Error()) > 300 {
			t.Errorf("Unescape(%.20q) = %q, %v", s, got, err)
		}
	}
}

func FuzzNamesGoThereAndBack(f *testing.F) {
	for _, s := range []string{"account/1", "permit#3", "é, 鍵", "%41", "%2F", "%C3%A9", "\x00", "\xff", "", strings.Repeat("é", 256), strings.Repeat("x", 513)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		// As a name:
		field := fencing.Escape(s)
		got, err := fencing.Unescape(field)
		if valid := guard.CheckResource(s) == nil; valid != (err == nil) || valid && got != s {
			t.Errorf("%q became %q, and that %q, %v", s, field, got, err)
		}
		for i := range len(field) {
			if c := field[i]; c <= ' ' || c > '~' || c == ',' || c == '"' {
				t.Fatalf("%q became %q, which is no single header value", s, field)
			}
		}
		// As what came over the network: if it is taken, it is the only form of the name.
		if name, err := fencing.Unescape(s); err == nil && (fencing.Escape(name) != s || guard.CheckResource(name) != nil) {
			t.Errorf("%q was taken for %q, whose form is %q", s, name, fencing.Escape(name))
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"9", " 9", "+9", "9.0", "1e3", "5,9", "5, 9", "9223372036854775808", "-1", "0", "09", "", "9\n"} {
		f.Add(s, "account%2C1")
	}
	f.Add("9", "a, b")
	f.Fuzz(func(t *testing.T, token, resource string) {
		name, tok, err := fencing.Parse([]string{token}, []string{resource})
		if err != nil {
			if name != "" || tok != 0 {
				t.Errorf("Parse(%q, %q) = %q, %d beside %v", token, resource, name, tok, err)
			}
			return
		}
		if tok.String() != token || fencing.Escape(name) != resource || guard.Check(name, tok, 0) != nil {
			t.Errorf("Parse(%q, %q) = %q, %d", token, resource, name, int64(tok))
		}
	})
}
