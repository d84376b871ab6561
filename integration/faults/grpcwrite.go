//go:build unix

package main

import (
	"bytes"
	"io"

	"github.com/fencedlock/fencedlock/internal/commitproxy"
)

// grpcWrites is as much of HTTP/2 as it takes to find a write among calls of gRPC, which sends a small message as one frame,
// and its answer among those of others.
func grpcWrites(isWrite func(message []byte) bool) commitproxy.Protocol {
	return commitproxy.Protocol{
		ReadFrame: func(r io.Reader, first bool) ([]byte, error) {
			if first { // RFC 9113, section 3.4
				preface := make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
				_, err := io.ReadFull(r, preface)
				return preface, err
			}
			return readFrame(r)
		},
		IsCommit:  func(frame []byte) bool { return frame[3] == typeData && isWrite(frame[frameHead:]) },
		ReadReply: readFrame,
		IsReply: func(write, frame []byte) bool {
			return frame[3] == typeHeaders && frame[4]&flagEndStream != 0 && bytes.Equal(frame[5:frameHead], write[5:frameHead])
		},
	}
}

// RFC 9113, sections 4.1 and 6. A frame begins with the length of what follows, in three bytes, its type, flags, and stream.
const (
	frameHead     = 9
	typeData      = 0
	typeHeaders   = 1
	flagEndStream = 1
)

func readFrame(r io.Reader) ([]byte, error) {
	frame := make([]byte, frameHead)
	if _, err := io.ReadFull(r, frame); err != nil {
		return nil, err
	}
	frame = append(frame, make([]byte, int(frame[0])<<16|int(frame[1])<<8|int(frame[2]))...)
	_, err := io.ReadFull(r, frame[frameHead:])
	return frame, err
}
