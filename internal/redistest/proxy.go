//go:build unix

package redistest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/fencedlock/fencedlock/internal/commitproxy"
)

// The faults of a [Proxy].
const (
	LoseReply    = commitproxy.LoseReply
	LoseRequest  = commitproxy.LoseRequest
	DelayRequest = commitproxy.DelayRequest
)

// Fault is what a proxy does to a script.
type Fault = commitproxy.CommitFault

// Proxy stands before a server, and can lose EVAL and EVALSHA, or their replies. Fail arms a fault for the next one.
type Proxy struct {
	*commitproxy.Proxy
	Addr string // host:port

	always  atomic.Int64 // a Fault that strikes every script; 0: none
	scripts atomic.Int64
}

// NewProxy starts a proxy in front of the server at addr; it ends with the test.
func NewProxy(t testing.TB, addr string) *Proxy {
	t.Helper()
	p := &Proxy{}
	ready := make(chan struct{})
	p.Proxy, p.Addr = commitproxy.New(t, addr, commitproxy.Protocol{
		ReadFrame: func(r io.Reader, _ bool) ([]byte, error) { return readCommand(r) },
		IsCommit: func(frame []byte) bool {
			<-ready
			if !isScript(frame) {
				return false
			}
			p.scripts.Add(1)
			if f := Fault(p.always.Load()); f != 0 {
				p.Proxy.Fail(f)
			}
			return true
		},
	})
	close(ready)
	return p
}

// FailAll arms a fault for every script until it is called with 0.
func (p *Proxy) FailAll(f Fault) { p.always.Store(int64(f)) }

// Scripts counts the scripts that were sent through.
func (p *Proxy) Scripts() int { return int(p.scripts.Load()) }

func isScript(frame []byte) bool {
	_, rest, _ := bytes.Cut(frame, []byte("\r\n$"))
	_, rest, _ = bytes.Cut(rest, []byte("\r\n"))
	name, _, _ := bytes.Cut(rest, []byte("\r\n"))
	return bytes.EqualFold(name, []byte("evalsha")) || bytes.EqualFold(name, []byte("eval"))
}

// readCommand reads one command: an array of bulk strings, see
// https://redis.io/docs/latest/develop/reference/protocol-spec/
func readCommand(r io.Reader) ([]byte, error) {
	var frame []byte
	one := bufio.NewReaderSize(byteReader{r}, 16)
	n, err := readHead(one, '*', &frame)
	if err != nil {
		return nil, err
	}
	for range n {
		size, err := readHead(one, '$', &frame)
		if err != nil {
			return nil, err
		}
		start := len(frame)
		frame = append(frame, make([]byte, size+2)...)
		if one.Buffered() > 0 {
			return nil, errors.New("redistest: read too far")
		}
		if _, err := io.ReadFull(r, frame[start:]); err != nil {
			return nil, err
		}
	}
	return frame, nil
}

// byteReader gives one byte at a time, so that nothing of the next part is taken.
type byteReader struct{ r io.Reader }

func (b byteReader) Read(p []byte) (int, error) { return b.r.Read(p[:1]) }

func readHead(r *bufio.Reader, kind byte, frame *[]byte) (int, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return 0, err
	}
	*frame = append(*frame, line...)
	n, err := strconv.Atoi(string(bytes.TrimSpace(line[1:])))
	if err != nil || line[0] != kind || n < 0 || n > 64<<20 {
		return 0, fmt.Errorf("redistest: %.20q is not a command of Redis's protocol", line)
	}
	return n, nil
}
