// Package commitproxy stands between a program and its database in tests, and loses a COMMIT or the reply to one.
package commitproxy

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// CommitFault is what a [Proxy] does to the next COMMIT.
type CommitFault int

const (
	// LoseReply lets the server commit, and cuts the client off before it hears of it.
	LoseReply CommitFault = iota + 1
	// LoseRequest cuts the client off before the server hears of the COMMIT; the server's side is cut too.
	LoseRequest
	// DelayRequest cuts the client off, and hands the COMMIT to the server when Release is called.
	DelayRequest
)

// Protocol is what the proxy knows of how a database talks.
type Protocol struct {
	// ReadFrame reads one message of the client; first is true for the first one of a connection.
	ReadFrame func(r io.Reader, first bool) ([]byte, error)
	// IsCommit tells whether a message is a COMMIT. It is not asked about the first one.
	IsCommit func(frame []byte) bool
	// ReadReply reads one message of the server, and IsReply tells whether it answers the COMMIT. Without them, what comes
	// first after it is the answer.
	ReadReply func(r io.Reader) ([]byte, error)
	IsReply   func(commit, frame []byte) bool
}

// Proxy stands between clients and a server, and can lose a COMMIT or its reply.
type Proxy struct {
	l        net.Listener
	target   string
	protocol Protocol

	mu      sync.Mutex
	fault   CommitFault       // guarded by mu
	hit     chan struct{}     // guarded by mu; closed when the fault has struck
	release chan struct{}     // guarded by mu
	conns   map[net.Conn]bool // guarded by mu
	closed  bool              // guarded by mu
	wg      sync.WaitGroup
}

// New starts a proxy in front of the server at target, host:port, and returns it and its own address. It ends with the
// test.
func New(t testing.TB, target string, protocol Protocol) (p *Proxy, address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p = &Proxy{l: l, target: target, protocol: protocol, conns: make(map[net.Conn]bool)}
	p.wg.Go(p.accept)
	t.Cleanup(p.close)
	return p, l.Addr().String()
}

// Fail arms a fault for the next COMMIT of any connection. The channel is closed once it has struck, before the client hears
// of it: for LoseReply when the server has answered. A fault strikes once.
func (p *Proxy) Fail(f CommitFault) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault, p.hit, p.release = f, make(chan struct{}), make(chan struct{})
	return p.hit
}

// Release lets the COMMIT of a DelayRequest go to the server.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.release)
}

func (p *Proxy) accept() {
	for {
		client, err := p.l.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !p.add(client, server) {
			return
		}
		p.wg.Go(func() { p.serve(client, server) })
	}
}

func (p *Proxy) add(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.closed {
			_ = c.Close()
		} else {
			p.conns[c] = true
		}
	}
	return !p.closed
}

func (p *Proxy) drop(c net.Conn) {
	_ = c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

func (p *Proxy) close() {
	_ = p.l.Close()
	p.mu.Lock()
	p.closed = true
	if p.release != nil {
		select {
		case <-p.release:
		default:
			close(p.release)
		}
	}
	for c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

// serve copies frames from client to server, and bytes back, until either side ends or a fault strikes.
func (p *Proxy) serve(client, server net.Conn) {
	defer p.drop(server)
	defer p.drop(client)
	var swallow atomic.Pointer[[]byte] // the COMMIT after whose sending the client gets nothing more
	done := make(chan struct{})        // the server has answered to that, or a side has ended
	p.wg.Go(func() {
		defer close(done)
		defer func() {
			if swallow.Load() == nil {
				_ = client.Close()
			}
		}()
		read := p.protocol.ReadReply
		if read == nil {
			buf := make([]byte, 64<<10)
			read = func(r io.Reader) ([]byte, error) {
				n, err := r.Read(buf)
				return buf[:n], err
			}
		}
		for {
			frame, err := read(server)
			commit := swallow.Load()
			switch {
			case err != nil:
				return
			case commit == nil:
				if _, err := client.Write(frame); err != nil {
					return
				}
			case p.protocol.IsReply == nil || p.protocol.IsReply(*commit, frame):
				return
			}
		}
	})
	for first := true; ; first = false {
		frame, err := p.protocol.ReadFrame(client, first)
		if err != nil {
			return
		}
		fault, hit, release := p.strike(first, frame)
		if fault == 0 {
			if _, err := server.Write(frame); err != nil {
				return
			}
			continue
		}
		swallow.Store(&frame)
		// Each time hit comes before the client can know.
		if fault == DelayRequest {
			close(hit)
			_ = client.Close()
			<-release
		}
		if fault != LoseRequest {
			if _, err := server.Write(frame); err == nil {
				<-done
			}
		}
		if fault != DelayRequest {
			close(hit)
		}
		_ = client.Close()
		_ = server.Close()
		return
	}
}

func (p *Proxy) strike(first bool, frame []byte) (CommitFault, chan struct{}, chan struct{}) {
	if first || !p.protocol.IsCommit(frame) {
		return 0, nil, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.fault
	p.fault = 0
	return f, p.hit, p.release
}
