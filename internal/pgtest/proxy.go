//go:build unix

package pgtest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/url"
	"testing"

	"github.com/fencedlock/fencedlock/internal/commitproxy"
)

// The faults of a [commitproxy.Proxy].
const (
	LoseReply    = commitproxy.LoseReply
	LoseRequest  = commitproxy.LoseRequest
	DelayRequest = commitproxy.DelayRequest
)

// CommitFault is what a proxy does to the next COMMIT.
type CommitFault = commitproxy.CommitFault

// NewProxy starts a proxy in front of the server of dsn, and returns it and the connection string that goes through it.
// It ends with the test.
func NewProxy(t testing.TB, dsn string) (*commitproxy.Proxy, string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	p, address := commitproxy.New(t, u.Host, commitproxy.Protocol{
		ReadFrame: func(r io.Reader, first bool) ([]byte, error) { return readFrame(r, !first) },
		IsCommit:  isCommit,
	})
	u.Host = address
	return p, u.String()
}

func isCommit(frame []byte) bool {
	return frame[0] == 'Q' && bytes.EqualFold(bytes.TrimRight(frame[5:], "; \x00"), []byte("commit"))
}

// readFrame reads one message: a type byte, which the first one of a connection has not, a length that counts itself,
// and the body (PostgreSQL documentation, "Message Formats").
func readFrame(r io.Reader, typed bool) ([]byte, error) {
	head := make([]byte, 4, 5)
	if typed {
		head = head[:5]
	}
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[len(head)-4:])
	if n < 4 || n > 64<<20 {
		return nil, errors.New("pgtest: not a frame of PostgreSQL's protocol")
	}
	frame := append(head, make([]byte, n-4)...)
	_, err := io.ReadFull(r, frame[len(head):])
	return frame, err
}
