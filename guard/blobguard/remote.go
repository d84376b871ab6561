package blobguard

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// errChanged is the error of a read whose object has been replaced since its stamp was read.
var errChanged = errors.New("the object was replaced while it was read")

// remote is the content of an object in the store, without its stamp, all of one version. It is not safe for concurrent use.
type remote struct {
	ctx     context.Context // of the call, or of the value that Get gives out
	bucket  Bucket
	key     string
	version Version
	size    int64 // of the content
	layout  layout
	pos     int64
	body    io.ReadCloser // nil: not open
	raw     int64         // where in the object body is
}

// Seek implements io.Seeker. The object is opened again when it is read next.
func (r *remote) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.pos
	case io.SeekEnd:
		offset += r.size
	}
	if offset < 0 {
		return 0, errors.New("blobguard: seek before the beginning")
	}
	var err error
	if offset != r.pos {
		err = r.Close()
	}
	r.pos = offset
	return r.pos, err
}

// open has the object open at the position.
func (r *remote) open() error {
	if r.body != nil {
		return nil
	}
	raw := r.pos
	if raw > r.layout.at {
		raw += r.layout.length
	}
	o, err := r.bucket.Get(r.ctx, r.key, raw, -1)
	if errors.Is(err, ErrNotExist) {
		return fmt.Errorf("%w: %w", errChanged, err)
	}
	if err != nil {
		return err
	}
	if o.Version != r.version {
		return errors.Join(errChanged, o.Body.Close())
	}
	r.body, r.raw = o.Body, raw
	return nil
}

func (r *remote) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err := r.open(); err != nil {
		return 0, err
	}
	if r.raw == r.layout.at && r.layout.length > 0 { // pass over the stamp, also at the end: a checksum may wait for it
		if _, err := io.CopyN(io.Discard, r.body, r.layout.length); err != nil {
			return 0, early(err)
		}
		r.raw += r.layout.length
	}
	if r.pos >= r.size {
		// To its very end, where the client may check what it has read.
		switch n, err := io.Copy(io.Discard, r.body); {
		case err != nil:
			return 0, err
		case n > 0:
			return 0, errors.New("blobguard: the object is longer than the store said")
		}
		return 0, io.EOF
	}
	limit := r.size - r.pos
	if r.pos < r.layout.at {
		limit = r.layout.at - r.pos
	}
	n, err := r.body.Read(p[:min(int64(len(p)), limit)])
	r.pos += int64(n)
	r.raw += int64(n)
	switch {
	case err == io.EOF && r.pos < r.size:
		err = io.ErrUnexpectedEOF
	case err == io.EOF:
		err = nil // the next call says so, after what is to be passed over
	}
	return n, err
}

// Close ends the read that is open.
func (r *remote) Close() error {
	if r.body == nil {
		return nil
	}
	body := r.body
	r.body = nil
	return body.Close()
}
