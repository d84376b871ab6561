package blobguard

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Comment is the codec for text in which a line that begins with prefix is a comment, such as "# " or "// ": the stamp is
// the last line. Get gives the content as it was given to Put, byte by byte. prefix is 1 to 32 bytes of printable ASCII or
// tabs; [New] refuses others.
//
// Other programs may read the object; one that writes it, or adds a line to it, destroys the stamp, and the guard then
// refuses to go on. Text without comments, such as CSV, must not be kept in this way; nor binary data, except for
// readers who ignore what comes after its end.
func Comment(prefix string) Codec { return Codec{comment(prefix)} }

type comment string

func (c comment) String() string { return fmt.Sprintf("Comment(%q)", string(c)) }

func (comment) name() string { return "comment" }

func (c comment) check() error {
	if len(c) == 0 || len(c) > 32 {
		return errors.New("a comment's prefix has 1 to 32 bytes")
	}
	for _, b := range []byte(c) {
		if b != '\t' && (b < ' ' || b > '~') {
			return fmt.Errorf("a comment's prefix is printable ASCII, and %q is not", string(c))
		}
	}
	return nil
}

func (c comment) window() (int64, int64) { return -window, -1 }

func (c comment) find(w []byte, size int64) (string, layout, error) {
	// The line before may end or not, so the stamp brings its own end of line along, and takes it away again.
	begin := []byte("\n" + string(c) + stampName)
	i := bytes.LastIndex(w, begin)
	if i < 0 {
		return "", layout{}, notFound(w, c)
	}
	line, ended := strings.CutSuffix(string(w[i+1+len(c):]), "\n")
	if !ended || strings.Contains(line, "\n") {
		return "", layout{}, fmt.Errorf("%w: it is not the last line", errDamaged)
	}
	length := int64(len(w) - i)
	return line, layout{at: size - length, length: length}, nil
}

func (c comment) place(_ io.ReadSeeker, size int64) (layout, error) { return layout{at: size}, nil }

func (c comment) insert(text string, _ layout) string { return "\n" + string(c) + text + "\n" }

func (c comment) empty() string { return "" }
