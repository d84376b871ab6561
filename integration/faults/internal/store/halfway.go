//go:build unix

package store

import (
	"bytes"
	"context"
	"net"
	"sync"
)

// halfway makes the connections of a client on which a certain request can be interrupted when a half of it is sent. The
// zero value is ready to use.
type halfway struct {
	mu   sync.Mutex
	text []byte // guarded by mu
	call func() // guarded by mu; nil: nothing is to be interrupted
}

// expect lets w.Inside be called when the first request that names the write is sent up to the middle of that name. It
// returns what ends that.
func (h *halfway) expect(w Write) (over func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.text, h.call = []byte(`"`+w.op()+`"`), w.Inside // so it is in a list
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.call = nil
	}
}

// find returns where to interrupt what is about to be sent, and by what; nil: not at all.
func (h *halfway) find(p []byte) (at int, call func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := bytes.Index(p, h.text)
	if h.call == nil || i < 0 {
		return 0, nil
	}
	call, h.call = h.call, nil
	return i + len(h.text)/2, call
}

func (h *halfway) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return halfwayConn{c, h}, nil
}

// dialTCP is dial as gRPC wants it.
func (h *halfway) dialTCP(ctx context.Context, address string) (net.Conn, error) {
	return h.dial(ctx, "tcp", address)
}

type halfwayConn struct {
	net.Conn
	h *halfway
}

// Write relies on its callers to send a small request in one piece, as they do.
func (c halfwayConn) Write(p []byte) (int, error) {
	at, call := c.h.find(p)
	if call == nil {
		return c.Conn.Write(p)
	}
	n, err := c.Conn.Write(p[:at])
	if err != nil {
		return n, err
	}
	call()
	m, err := c.Conn.Write(p[at:])
	return n + m, err
}
