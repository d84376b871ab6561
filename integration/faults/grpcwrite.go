//go:build unix

package main

import (
	"io"

	"github.com/fencedlock/fencedlock/internal/commitproxy"
)

// grpcWrites is as much of HTTP/2 as it takes to find a write among calls of gRPC, which sends a small message as one frame.
func grpcWrites(isWrite func(message []byte) bool) commitproxy.Protocol {
	return commitproxy.Protocol{
		ReadFrame: func(r io.Reader, first bool) ([]byte, error) {
			if first { // RFC 9113, section 3.4
				preface := make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
				_, err := io.ReadFull(r, preface)
				return preface, err
			}
			frame := make([]byte, 9) // RFC 9113, section 4.1: its length, without this, is in the first three bytes
			if _, err := io.ReadFull(r, frame); err != nil {
				return nil, err
			}
			frame = append(frame, make([]byte, int(frame[0])<<16|int(frame[1])<<8|int(frame[2]))...)
			_, err := io.ReadFull(r, frame[9:])
			return frame, err
		},
		IsCommit: func(frame []byte) bool { return frame[3] == 0 && isWrite(frame[9:]) }, // of type DATA
	}
}
