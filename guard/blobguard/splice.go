package blobguard

import (
	"errors"
	"io"
	"strings"
)

// splice is content with something inserted, without a copy of it in memory. It is not safe for concurrent use.
type splice struct {
	content io.ReadSeeker // nil: none
	size    int64         // of the content
	at      int64
	insert  string
	pos     int64
	there   int64 // where the content's own position is; -1: not known
	err     error // what the content failed with
}

func newSplice(content io.ReadSeeker, size, at int64, insert string) *splice {
	if content == nil {
		content, size = strings.NewReader(""), 0
	}
	return &splice{content: content, size: size, at: at, insert: insert, there: -1}
}

func (s *splice) len() int64 { return s.size + int64(len(s.insert)) }

// Seek implements io.Seeker without touching the content.
func (s *splice) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += s.pos
	case io.SeekEnd:
		offset += s.len()
	default:
		return 0, errors.New("blobguard: seek: invalid whence")
	}
	if offset < 0 {
		return 0, errors.New("blobguard: seek before the beginning")
	}
	s.pos = offset
	return s.pos, nil
}

func (s *splice) Read(p []byte) (int, error) {
	end := s.at + int64(len(s.insert))
	switch {
	case len(p) == 0:
		return 0, nil
	case s.pos >= s.len():
		return 0, io.EOF
	case s.pos < s.at:
		return s.read(p[:min(int64(len(p)), s.at-s.pos)], s.pos)
	case s.pos < end:
		n := copy(p, s.insert[s.pos-s.at:])
		s.pos += int64(n)
		return n, nil
	}
	return s.read(p[:min(int64(len(p)), s.len()-s.pos)], s.pos-int64(len(s.insert)))
}

// read reads the content from there on.
func (s *splice) read(p []byte, from int64) (int, error) {
	if s.there != from {
		if _, err := s.content.Seek(from, io.SeekStart); err != nil {
			return 0, s.fail(err)
		}
		s.there = from
	}
	n, err := s.content.Read(p)
	s.pos += int64(n)
	s.there += int64(n)
	switch {
	case s.there >= s.size:
		err = nil // the end of the whole comes with the next call; an error would come too late to stop the request
	case err == io.EOF:
		err = s.fail(io.ErrUnexpectedEOF) // it has become shorter since it was measured
	case err != nil:
		err = s.fail(err)
	}
	return n, err
}

func (s *splice) fail(err error) error {
	s.there, s.err = -1, err
	return err
}
