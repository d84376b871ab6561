//go:build unix

package main

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/internal/commitproxy"
)

// A server of HTTP/2 sends frames of its own while a call runs. Who cuts it off at the first one cancels the call, whose write is
// then not carried out.
func TestAServerIsNotCutOffBeforeItHasAnswered(t *testing.T) {
	frame := func(kind, flags, stream byte, body string) []byte {
		return append([]byte{0, 0, byte(len(body)), kind, flags, 0, 0, 0, stream}, body...)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	proxy, address := commitproxy.New(t, l.Addr().String(), grpcWrites(func(m []byte) bool { return string(m) == "write" }))
	client, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for _, c := range []net.Conn{client, server} {
		if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	send := func(c net.Conn, text []byte) {
		t.Helper()
		if _, err := c.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	get := func(c net.Conn, want []byte) {
		t.Helper()
		got := make([]byte, len(want))
		if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%q, %v; want %q", got, err, want)
		}
	}

	preface, read, write := []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(typeData, flagEndStream, 1, "read"), frame(typeData, flagEndStream, 3, "write")
	struck := proxy.Fail(commitproxy.LoseReply)
	send(client, append(preface, read...))
	get(server, append(preface, read...))
	settings := frame(4, 0, 0, "")
	send(server, settings)
	get(client, settings)
	send(client, write)
	get(server, write)
	for _, f := range [][]byte{frame(6, 0, 0, "12345678"), frame(typeHeaders, 0, 3, "h"), frame(typeData, 0, 3, "done"), frame(typeHeaders, flagEndStream, 1, "other")} {
		send(server, f)
		time.Sleep(20 * time.Millisecond) // for who takes it for the answer
		select {
		case <-struck:
			t.Fatalf("%q was taken for the answer", f)
		default:
		}
	}
	send(server, frame(typeHeaders, flagEndStream, 3, "end"))
	if _, err := client.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the client got something: %v", err)
	}
	<-struck
}
