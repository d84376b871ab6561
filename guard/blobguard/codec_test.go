//go:build unix

package blobguard_test

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/internal/membucket"
)

const aStamp = "fencedlock 1 99 comment content 0123456789abcdef0123456789abcdef 0123456789abcdef0123456789abcdef " +
	"0123456789abcdef0123456789abcdef 0123456789abcdef"

// texts are contents that are cut at a wrong place by those who look for the stamp carelessly.
var texts = []string{
	"", "a", "\n", "\n\n", "a\n", "a\r\n", "# \n", "# fencedlock ", "# " + aStamp, "# " + aStamp + "\n", "\n# " + aStamp + "\n", "\n# " + aStamp + "\n\n",
	"\x00\xff", strings.Repeat("x", 1024), strings.Repeat("\n", 70_000), strings.Repeat("\n# "+aStamp+"\n", 1000), strings.Repeat("x", 1<<20),
}

var documents = []string{
	"{}", "{ }", " {\n}\n", `{"a":1}`, "\n\t{\n  \"a\": 1,\n  \"b\": [{\"_fence\": \"nested\"}]\n}\n", `{"a":{"_fence":"x"}}`, `{"_fences":1,"fence":2}`,
	`{"a":"` + aStamp + `"}`, `{"a":"\u005ffence"}`, `{"a":1,"a":2}`, `{"big":12345678901234567890123}`, strings.Repeat(" ", 500) + "{}" + strings.Repeat("\n", 2000),
	`{"a":"` + strings.Repeat("x", 1<<20) + `"}`, `{"鍵":"🔒"}`, "{" + strings.Repeat(" ", 3000) + "}",
}

func TestContentComesBackAsItWasGiven(t *testing.T) {
	for _, unique := range []bool{true, false} {
		for codec, contents := range map[blobguard.Codec][]string{
			blobguard.Comment("# "): texts, blobguard.Comment("//"): texts, blobguard.Pointer(): append(texts, documents...), blobguard.JSON(): documents,
			blobguard.Verbatim(): append(texts, documents...),
		} {
			if codec == blobguard.Verbatim() && !unique {
				continue
			}
			b := membucket.New(unique)
			g, other := newGuard(t, b, &blobguard.Options{Codec: codec}), newGuard(t, b, &blobguard.Options{Codec: codec})
			for i, c := range contents {
				tok := guard.Token(2*i + 1)
				mustPut(t, g, "doc", tok, c)
				holds(t, other, "doc", c, tok)
				if err := other.Seal(t.Context(), "doc", tok+1); err != nil { // adds and removes it once more
					t.Errorf("%s: Seal of %.40q: %v", codec, c, err)
				}
				holds(t, g, "doc", c, tok+1)
				if err := put(t, g, "doc", tok, c); !errors.Is(err, guard.ErrStale) {
					t.Errorf("%s: Put = %v; want ErrStale", codec, err)
				}
			}
		}
	}
}

func TestOtherProgramsCanUseTheObject(t *testing.T) {
	b := membucket.New(true)
	open := func(c blobguard.Codec) *blobguard.Guard { return newGuard(t, b, &blobguard.Options{Codec: c}) }

	mustPut(t, open(blobguard.Comment("# ")), "conf", 5, "port = 80\n")
	if got := raw(t, b, "conf"); !strings.HasPrefix(got, "port = 80\n\n# fencedlock 1 5 comment content ") || !strings.HasSuffix(got, "\n") || strings.Count(got, "\n") != 3 {
		t.Errorf("a text is %q", got)
	}

	g := open(blobguard.JSON())
	mustPut(t, g, "json", 5, "{\n  \"balance\": 90\n}\n")
	var doc struct {
		Fence   string `json:"_fence"`
		Balance int    `json:"balance"`
	}
	if err := json.Unmarshal([]byte(raw(t, b, "json")), &doc); err != nil || doc.Balance != 90 || !strings.HasPrefix(doc.Fence, "fencedlock 1 5 json content ") {
		t.Errorf("a document is %+v, %v", doc, err)
	}
	if err := g.Delete(t.Context(), "json", 6); err != nil {
		t.Fatal(err)
	}
	doc.Balance = 0
	if err := json.Unmarshal([]byte(raw(t, b, "json")), &doc); err != nil || doc.Balance != 0 || !strings.HasPrefix(doc.Fence, "fencedlock 1 6 json deleted ") {
		t.Errorf("a deleted document is %+v, %v", doc, err)
	}

	mustPut(t, open(blobguard.Pointer()), "bytes", 5, "\x00\x01")
	var pointer struct {
		Fence, Data string
		Size        int
	}
	if err := json.Unmarshal([]byte(strings.Replace(raw(t, b, "bytes"), "_fence", "fence", 1)), &pointer); err != nil || pointer.Size != 2 || !strings.HasPrefix(pointer.Data, "bytes.data/5-") {
		t.Errorf("a pointer is %+v, %v", pointer, err)
	}
	if got := raw(t, b, pointer.Data); got != "\x00\x01" {
		t.Errorf("its data is %q", got)
	}

	mustPut(t, open(blobguard.Verbatim()), "verbatim", 5, "\x00\x01")
	if got := raw(t, b, "verbatim"); got != "\x00\x01" {
		t.Errorf("bytes are %q", got)
	}
}

func TestJSONRefusesWhatIsNoObjectOfItsOwn(t *testing.T) {
	b := membucket.New(false)
	g := newGuard(t, b, &blobguard.Options{Codec: blobguard.JSON()})
	for _, c := range []string{
		"", " ", "null", "1", `"a"`, "[]", "[{}]", "{", "}", `{"a":1`, `{"a":1,}`, `{"a"}`, `{,}`, `{"a":1 "b":2}`, `{"a":1}{}`, `{"a":1} x`, "{}\x00", `{a:1}`,
		`{"a":01}`, "\ufeff{}", `{"_fence":"x"}`, `{"a":1,"_fence":null}`, `{"\u005ffence":1}`, `{"_fen\u0063e":1}`, `{"_fence":"` + aStamp + `"}`,
		strings.Repeat(" ", 600) + "{}",
	} {
		err := put(t, g, "doc", 5, c)
		if err == nil || errors.Is(err, guard.ErrUnknown) || errors.Is(err, guard.ErrStale) || !strings.Contains(err.Error(), "JSON") && !strings.Contains(err.Error(), "blanks") {
			t.Errorf("Put(%.40q) = %v; want an error about the content", c, err)
		}
	}
	if left := keys(t, b, ""); len(left) > 0 {
		t.Errorf("there is %q", left)
	}
}

var noCodec = regexp.MustCompile("fencedlock 1 5 [a-z]+ content ")

// A stamp that is there and cannot be read is an error, and not a mark of zero, under which everybody could write.
func TestDamagedStampIsAnErrorAndNotZero(t *testing.T) {
	for _, adopt := range []bool{false, true} {
		for _, codec := range codecs {
			b := membucket.New(false)
			opts := &blobguard.Options{Codec: codec, Adopt: adopt}
			mustPut(t, newGuard(t, b, opts), "doc", 5, encode(codec, "a"))
			good := raw(t, b, "doc")
			for name, damage := range map[string]func(string) string{
				"token 0":   func(s string) string { return strings.Replace(s, "fencedlock 1 5 ", "fencedlock 1 0 ", 1) },
				"token 05":  func(s string) string { return strings.Replace(s, "fencedlock 1 5 ", "fencedlock 1 05 ", 1) },
				"token -5":  func(s string) string { return strings.Replace(s, "fencedlock 1 5 ", "fencedlock 1 -5 ", 1) },
				"token 5e0": func(s string) string { return strings.Replace(s, "fencedlock 1 5 ", "fencedlock 1 5e0 ", 1) },
				"token 2^63": func(s string) string {
					return strings.Replace(s, "fencedlock 1 5 ", "fencedlock 1 9223372036854775808 ", 1)
				},
				"no token":          func(s string) string { return strings.Replace(s, "fencedlock 1 5 ", "fencedlock 1 ", 1) },
				"another version":   func(s string) string { return strings.Replace(s, "fencedlock 1 ", "fencedlock 2 ", 1) },
				"another codec":     func(s string) string { return strings.Replace(s, " content ", "s content ", 1) },
				"no codec":          func(s string) string { return noCodec.ReplaceAllString(s, "fencedlock 1 5 content ") },
				"another state":     func(s string) string { return strings.Replace(s, " content ", " Content ", 1) },
				"short":             func(s string) string { i := strings.Index(s, " content "); return s[:i+30] + s[i+31:] },
				"a blank more":      func(s string) string { return strings.Replace(s, " content ", "  content ", 1) },
				"a line after it":   func(s string) string { return s + "more\n" },
				"no end":            func(s string) string { return s[:len(s)-20] },
				"a blank before it": func(s string) string { return strings.Replace(s, "fencedlock", " fencedlock", 1) },
				"upper case": func(s string) string {
					i := strings.Index(s, " content ")
					return s[:i+9] + strings.ToUpper(s[i+9:i+70]) + s[i+70:]
				},
				"moved to the middle": func(s string) string { return "x" + s + "x" },
				"indented by a tool":  func(s string) string { return strings.Replace(s, `{"_fence":`, "{\n  \"_fence\": ", 1) },
				"moved by a tool": func(s string) string {
					i := strings.Index(s, `,"`)
					return `{` + s[max(i, 0)+1:len(s)-1] + "," + s[1:max(i, 1)] + "}"
				},
			} {
				bad := damage(good)
				if bad == good || (codec == blobguard.Comment("# ")) == strings.Contains(name, "tool") {
					continue
				}
				if codec != blobguard.Comment("# ") && (name == "a line after it" || name == "no end") {
					continue // the document is damaged, and its stamp is not
				}
				replace(t, b, "doc", bad)
				g := newGuard(t, b, opts)
				refused := func(op string, err error) {
					t.Helper()
					if err == nil || errors.Is(err, guard.ErrStale) || errors.Is(err, guard.ErrUnknown) || !strings.Contains(err.Error(), `"doc"`) || !strings.Contains(err.Error(), "the stamp is damaged") {
						t.Errorf("%s, adopt %v, %s: %s = %v; want an error that names the object and the damage", codec, adopt, name, op, err)
					}
				}
				_, err := g.Highest(t.Context(), "doc")
				refused("Highest", err)
				_, _, err = get(t, g, "doc")
				refused("Get", err)
				refused("Put", put(t, g, "doc", 9, encode(codec, "b")))
				refused("Seal", g.Seal(t.Context(), "doc", 9))
				refused("Delete", g.Delete(t.Context(), "doc", 9))
				if now := raw(t, b, "doc"); now != bad {
					t.Errorf("%s, %s: the object was changed to %q", codec, name, now)
				}
			}
		}
	}
}

func FuzzComment(f *testing.F) {
	for _, c := range texts {
		f.Add(c)
	}
	b := membucket.New(false)
	f.Fuzz(func(t *testing.T, content string) { fuzz(t, b, blobguard.Comment("# "), content) })
}

func FuzzJSON(f *testing.F) {
	for _, c := range documents {
		f.Add(c)
	}
	b := membucket.New(false)
	f.Fuzz(func(t *testing.T, content string) {
		var object map[string]json.RawMessage
		if json.Unmarshal([]byte(content), &object) != nil || object == nil || object["_fence"] != nil || strings.IndexByte(content, '{') > 500 {
			return
		}
		fuzz(t, b, blobguard.JSON(), content)
		if !json.Valid([]byte(raw(t, b, "doc"))) {
			t.Errorf("%q became %q, which is no JSON", content, raw(t, b, "doc"))
		}
	})
}

func fuzz(t *testing.T, b *membucket.Bucket, codec blobguard.Codec, content string) {
	g := newGuard(t, b, &blobguard.Options{Codec: codec})
	if err := g.Purge(t.Context(), "doc"); err != nil {
		t.Fatal(err)
	}
	mustPut(t, g, "doc", 5, content)
	if err := g.Seal(t.Context(), "doc", 6); err != nil {
		t.Fatal(err)
	}
	holds(t, newGuard(t, b, &blobguard.Options{Codec: codec}), "doc", content, 6)
}

// lastBreath fails with its last byte, when nothing can stop a request any more that has it.
type lastBreath struct{ *strings.Reader }

func (l lastBreath) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	if err == nil && l.Len() == 0 {
		err = errors.New("disk failure")
	}
	return n, err
}

func TestContentThatFailsWithItsLastByteIsWrittenAndNotCalledUnwritten(t *testing.T) {
	s := membucket.New(true)
	g, err := blobguard.New(t.Context(), s, &blobguard.Options{Codec: blobguard.Verbatim()})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Put(t.Context(), "r", 5, lastBreath{strings.NewReader("all of it")}); err != nil {
		t.Errorf("Put = %v", err)
	}
}

// The longest stamp fits the windows, and the metadata that a bucket promises to keep.
func TestLongestStampIsAsShortAsTheDocumentationSays(t *testing.T) {
	longest := 0
	for _, codec := range append(codecs[:len(codecs):len(codecs)], blobguard.Verbatim()) {
		b := membucket.New(true)
		g := newGuard(t, b, &blobguard.Options{Codec: codec})
		for range 10 {
			if err := g.Delete(t.Context(), "doc", 1<<63-1); err != nil {
				t.Fatal(err)
			}
		}
		text := raw(t, b, "doc")
		if o, err := b.Get(t.Context(), "doc", 0, 0); err == nil && o.Stamp != "" {
			text = o.Stamp
		}
		stamp := regexp.MustCompile("fencedlock [0-9a-z ]+").FindString(text)
		longest = max(longest, len(stamp))
		if len(stamp) < 250 {
			t.Errorf("%s: the stamp is %q", codec, stamp)
		}
		holds(t, g, "doc", "", 1<<63-1)
	}
	if longest > 280 {
		t.Errorf("the longest stamp has %d bytes", longest)
	}
}
