package blobguard

import "io"

// Verbatim is the codec for any bytes, exactly as given, at their own key: the stamp is in the object's metadata. It needs a
// [StampBucket] in which every write gets a version of its own, such as Google Cloud Storage or Azure; [New] refuses others.
// Where the version is made from the content, as S3's ETag is, a stamp in the metadata can change without it, and a late
// writer whose condition is "the content is still this" passes after a newer holder wrote the same content again.
//
// Other programs may read the object; one that writes it without the metadata destroys the stamp.
func Verbatim() Codec { return Codec{verbatim{}} }

type verbatim struct{}

func (verbatim) String() string { return "Verbatim()" }

func (verbatim) name() string { return "verbatim" }

// The stamp comes with every read, so that none of the bytes is needed.
func (verbatim) window() (int64, int64) { return 0, 0 }

func (verbatim) find([]byte, int64) (string, layout, error) { return "", layout{}, nil }

func (verbatim) place(io.ReadSeeker, int64) (layout, error) { return layout{}, nil }

func (verbatim) insert(string, layout) string { return "" }

func (verbatim) empty() string { return "" }
