package blobguard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// JSON is the codec for documents that are one JSON object: the stamp is its first field, "_fence", a string. Get gives the
// document as it was given to Put, byte by byte. Put refuses what is no JSON object, and one that has a field "_fence" at
// its top; it parses the document for that, and holds its largest top-level member in memory.
//
// Other programs may read the object. One that writes it, be it with the same field, destroys the stamp or brings back an
// old one.
func JSON() Codec { return Codec{jsonCodec{}} }

const (
	fenceField = "_fence"
	fenceBegin = `"` + fenceField + `":"`
	// maxBlank is how many blanks may stand before the object, so that the window holds the stamp.
	maxBlank = 512
	blanks   = " \t\r\n"
)

type jsonCodec struct{}

func (jsonCodec) String() string { return "JSON()" }

func (jsonCodec) name() string { return "json" }

func (jsonCodec) window() (int64, int64) { return 0, window }

func (jsonCodec) find(w []byte, _ int64) (string, layout, error) { return findInJSON(w, jsonCodec{}) }

// findInJSON is find of c, which is JSON or has documents of its own.
func findInJSON(w []byte, c codec) (string, layout, error) {
	at := len(w) - len(bytes.TrimLeft(w, blanks))
	rest, object := bytes.CutPrefix(w[at:], []byte("{"))
	rest, ours := bytes.CutPrefix(rest, []byte(fenceBegin+stampName))
	if !object || !ours {
		return "", layout{}, notFound(w, c)
	}
	text, after, closed := strings.Cut(string(rest), `"`)
	if !closed || after == "" {
		return "", layout{}, fmt.Errorf("%w: the field %q does not end", errDamaged, fenceField)
	}
	l := layout{at: int64(at) + 1, comma: after[0] == ','}
	if next := strings.TrimLeft(after, blanks); !l.comma && next != "" && next[0] != '}' {
		return "", layout{}, fmt.Errorf("%w: the document was written anew around the field %q", errDamaged, fenceField)
	}
	l.length = int64(len(jsonCodec{}.insert(stampName+text, l)))
	return stampName + text, l, nil
}

func (jsonCodec) insert(text string, l layout) string {
	s := fenceBegin + text + `"`
	if l.comma {
		s += ","
	}
	return s
}

func (jsonCodec) empty() string { return "{}" }

func (jsonCodec) place(content io.ReadSeeker, _ int64) (layout, error) {
	if _, err := content.Seek(0, io.SeekStart); err != nil {
		return layout{}, err
	}
	r := &failing{r: content}
	l, err := placeInJSON(json.NewDecoder(r))
	switch {
	case r.err != nil:
		return layout{}, r.err
	case err != nil:
		return layout{}, fmt.Errorf("%w %s: %w", errContent, jsonCodec{}, err)
	}
	return l, nil
}

// failing keeps a reader's own error apart from what a parser says about the bytes.
type failing struct {
	r   io.Reader
	err error
}

func (f *failing) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if err != nil && err != io.EOF {
		f.err = err
	}
	return n, err
}

func placeInJSON(d *json.Decoder) (layout, error) {
	begin, err := d.Token()
	if err != nil {
		return layout{}, early(err)
	}
	if begin != json.Delim('{') {
		return layout{}, errors.New("it is no JSON object")
	}
	l := layout{at: d.InputOffset()}
	if l.at > maxBlank {
		return layout{}, fmt.Errorf("it begins with %d blanks; %d are allowed", l.at-1, maxBlank-1)
	}
	for d.More() {
		l.comma = true
		name, err := d.Token()
		if err != nil {
			return layout{}, early(err)
		}
		if name == fenceField {
			return layout{}, fmt.Errorf("it has a field %q, which is the guard's", fenceField)
		}
		var member json.RawMessage
		if err := d.Decode(&member); err != nil {
			return layout{}, early(err)
		}
	}
	if _, err := d.Token(); err != nil {
		return layout{}, early(err)
	}
	switch _, err := d.Token(); {
	case err == nil:
		return layout{}, errors.New("something follows after the JSON object")
	case err != io.EOF:
		return layout{}, err
	}
	return l, nil
}

func early(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
