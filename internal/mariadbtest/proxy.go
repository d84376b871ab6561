//go:build unix

package mariadbtest

import (
	"bytes"
	"io"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/fencedlock/fencedlock/internal/commitproxy"
)

// The faults of a [commitproxy.Proxy].
const (
	LoseReply   = commitproxy.LoseReply
	LoseRequest = commitproxy.LoseRequest
)

// CommitFault is what a proxy does to the next COMMIT.
type CommitFault = commitproxy.CommitFault

// NewProxy starts a proxy in front of the server of dsn, and returns it and the data source name that goes through it.
// It ends with the test.
func NewProxy(t testing.TB, dsn string) (*commitproxy.Proxy, string) {
	t.Helper()
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	p, address := commitproxy.New(t, c.Addr, commitproxy.Protocol{ReadFrame: readFrame, IsCommit: isCommit})
	c.Addr = address
	return p, c.FormatDSN()
}

const comQuery = 3

func isCommit(frame []byte) bool {
	return len(frame) > 4 && frame[4] == comQuery && bytes.EqualFold(frame[5:], []byte("commit"))
}

// readFrame reads one packet: three bytes of length, one that counts packets, and the body (MariaDB Knowledge Base,
// "0 - Packet").
func readFrame(r io.Reader, _ bool) ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	n := int(head[0]) | int(head[1])<<8 | int(head[2])<<16
	frame := append(head, make([]byte, n)...)
	_, err := io.ReadFull(r, frame[4:])
	return frame, err
}
