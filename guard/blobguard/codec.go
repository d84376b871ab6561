package blobguard

import (
	"errors"
	"fmt"
	"io"
)

// Codec is how an object carries its stamp, and so what other programs find at its key: [Pointer], [JSON], [Comment] or
// [Verbatim]. All guards of an object must use the same one, which the stamp names: one with another codec gets an error from
// every operation but Purge, and changes nothing.
//
//	codec     content               other programs find                     Put costs         Seal costs
//	Pointer   any bytes             a small JSON document that names them   two writes        one small write
//	JSON      one JSON object       it, with a field more                   one write         reading and writing it again
//	Comment   text with comments    it, with a line more at its end         one write         reading and writing it again
//	Verbatim  any bytes             the bytes                               one write         reading and writing it again
//
// To these add a small read, where the guard does not know the object's version from its own last write. The stamp takes at most
// 280 bytes.
type Codec struct{ c codec } // a struct, so that the set is closed

// String names the codec.
func (c Codec) String() string {
	if c.c == nil {
		return "none"
	}
	return c.c.String()
}

// codec puts a stamp into content and finds it again. It does no I/O of its own but on the bytes it is given.
type codec interface {
	String() string

	// name is what stamps call it, a key of codecNames.
	name() string

	// window is the range, as for [Bucket.Get], that holds the stamp of every object that place was content with.
	window() (offset, length int64)

	// find finds the stamp in what the window held. text is "" if there is none. An error wraps errDamaged.
	find(window []byte, size int64) (text string, l layout, err error)

	// place checks the content and says where the stamp goes.
	place(content io.ReadSeeker, size int64) (layout, error)

	// insert is what is put into the content there.
	insert(text string, l layout) string

	// empty is the content of a tombstone.
	empty() string
}

// layout says where in the content the stamp is.
type layout struct {
	at     int64 // before this byte of the content
	length int64 // of what is inserted there; 0 if nothing is
	comma  bool  // JSON: other fields follow
}

// window is long enough for a stamp, what a codec writes around it, and what it allows before or after it.
const window = 1024

// errContent is inside the error of content that does not fit the codec.
var errContent = errors.New("the content does not fit the codec")

// codecNames are the names that stamps have for codecs, and what users know them by.
var codecNames = map[string]string{"pointer": "Pointer()", "json": "JSON()", "comment": "Comment", "verbatim": "Verbatim()"}

// errCodec is inside the error of an object that was written with another codec.
var errCodec = errors.New("another codec")

// other is the error of a stamp of another codec than the guard's.
func other(name string, c codec) error {
	return fmt.Errorf("%w: the object was written with codec %s, this guard has %s", errCodec, codecNames[name], c)
}

// notFound is for a window without a stamp in its place: there is none, or one of another codec, or one that somebody has
// moved or changed.
func notFound(w []byte, c codec) error {
	i := stampLike.FindIndex(w)
	if i == nil {
		return nil
	}
	if s, err := parseStamp(string(stampText.Find(w[i[0]:]))); err == nil && s.codec != c.name() {
		return other(s.codec, c)
	}
	return fmt.Errorf("%w: %.120q is not where, or not as, this codec writes it", errDamaged, w[i[0]:])
}
