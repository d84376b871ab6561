//go:build unix

package pgtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// Pooler gives each transaction of a client the next of a few server connections, as PgBouncer does in transaction
// mode: what a client leaves in a session, another one finds. Clients must not use named prepared statements
// (default_query_exec_mode=exec).
type Pooler struct {
	l       net.Listener
	servers chan net.Conn // those that no client has at the moment
	all     []net.Conn
	wg      sync.WaitGroup

	mu      sync.Mutex
	clients map[net.Conn]bool // guarded by mu; nil: closed
}

// NewPooler starts a pooler with n connections to the database of dsn, and returns the connection string that goes
// through it. It ends with the test.
func NewPooler(t testing.TB, dsn string, n int) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Pooler{l: l, servers: make(chan net.Conn, n), clients: make(map[net.Conn]bool)}
	t.Cleanup(p.close)
	for range n {
		c, err := net.Dial("tcp", u.Host)
		if err != nil {
			t.Fatal(err)
		}
		p.all = append(p.all, c)
		if err := logIn(c, u.User.Username(), strings.TrimPrefix(u.Path, "/")); err != nil {
			t.Fatal(err)
		}
		p.servers <- c
	}
	p.wg.Go(p.accept)
	u.Host = l.Addr().String()
	u.RawQuery = "sslmode=disable&default_query_exec_mode=exec"
	return u.String()
}

// logIn opens a session of a server that trusts us, and reads up to its first ReadyForQuery.
func logIn(c net.Conn, user, database string) error {
	body := binary.BigEndian.AppendUint32(nil, 3<<16) // protocol 3.0
	body = append(body, "user\x00"+user+"\x00database\x00"+database+"\x00client_encoding\x00UTF8\x00\x00"...)
	if _, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body)+4)), body...)); err != nil {
		return err
	}
	for {
		f, err := readFrame(c, true)
		switch {
		case err != nil:
			return err
		case f[0] == 'E':
			return fmt.Errorf("pgtest: server said %q", f[5:])
		case f[0] == 'Z':
			return nil
		}
	}
}

func (p *Pooler) accept() {
	for {
		c, err := p.l.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		open := p.clients != nil
		if open {
			p.clients[c] = true
			p.wg.Go(func() {
				_ = p.serve(c) // the client or the test has ended
				_ = c.Close()
			})
		}
		p.mu.Unlock()
		if !open {
			_ = c.Close()
		}
	}
}

func (p *Pooler) close() {
	_ = p.l.Close()
	p.mu.Lock()
	for c := range p.clients {
		_ = c.Close()
	}
	p.clients = nil
	p.mu.Unlock()
	for _, c := range p.all {
		_ = c.Close()
	}
	p.wg.Wait()
}

// serve forwards a client's frames. A server connection is the client's from the first frame of a transaction until
// ReadyForQuery says that the server is idle.
func (p *Pooler) serve(client net.Conn) error {
	if _, err := readFrame(client, false); err != nil {
		return err
	}
	if _, err := client.Write(greeting()); err != nil {
		return err
	}
	var server net.Conn
	for {
		f, err := readFrame(client, true)
		if err != nil || f[0] == 'X' {
			if server != nil { // it would need a ROLLBACK; no test leaves one behind
				_ = server.Close()
			}
			return err
		}
		if server == nil {
			select {
			case server = <-p.servers:
			case <-time.After(30 * time.Second):
				return errors.New("pgtest: no server connection became free")
			}
		}
		if _, err := server.Write(f); err != nil {
			return err
		}
		if f[0] != 'Q' && f[0] != 'S' { // Parse, Bind and so on: the server answers after Sync
			continue
		}
		idle, err := answer(client, server)
		if err != nil {
			return err
		}
		if idle {
			p.servers <- server
			server = nil
		}
	}
}

// answer forwards what the server says up to ReadyForQuery, and tells whether it is outside a transaction then.
func answer(client, server net.Conn) (idle bool, err error) {
	for {
		f, err := readFrame(server, true)
		if err != nil {
			return false, err
		}
		if _, err := client.Write(f); err != nil {
			return false, err
		}
		if f[0] == 'Z' {
			return f[5] == 'I', nil
		}
	}
}

// greeting is what a client needs to hear before its first query.
func greeting() []byte {
	frame := func(kind byte, body string) string {
		return string(kind) + string(binary.BigEndian.AppendUint32(nil, uint32(len(body)+4))) + body
	}
	return []byte(frame('R', "\x00\x00\x00\x00") +
		frame('S', "client_encoding\x00UTF8\x00") +
		frame('S', "standard_conforming_strings\x00on\x00") +
		frame('S', "server_version\x0015\x00") +
		frame('K', "\x00\x00\x00\x01\x00\x00\x00\x01") +
		frame('Z', "I"))
}
