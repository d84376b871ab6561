// Package httpfault puts a proxy in front of an HTTP server, for tests: it loses requests and replies, and holds them up.
package httpfault

import (
	"bytes"
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
)

// Fault handles a request that came to the proxy; forward passes it on to the server.
type Fault func(w http.ResponseWriter, r *http.Request, forward http.Handler)

// Proxy is a proxy on a port of 127.0.0.1. Its methods are safe for concurrent use.
type Proxy struct {
	Address string // host and port

	mu    sync.Mutex
	fault Fault
}

// New starts a proxy in front of the server at host:port, and ends it with the test.
func New(t testing.TB, server string) *Proxy {
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}
	discard := log.New(io.Discard, "", 0)
	forward := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: server}) },
		Transport: transport,
		ErrorLog:  discard,
		// An answer of the proxy's own would be one that the server never gave.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p := &Proxy{}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		fault := p.fault
		p.mu.Unlock()
		if fault == nil {
			forward.ServeHTTP(w, r)
			return
		}
		fault(w, r, forward)
	}))
	s.Config.ErrorLog = discard
	s.Start()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		transport.CloseIdleConnections()
	})
	p.Address = s.Listener.Addr().String()
	return p
}

// Set makes the fault handle all requests from now on; nil: they are passed on.
func (p *Proxy) Set(fault Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = fault
}

// Only makes a fault of the requests that match; the others are passed on.
func Only(match func(*http.Request) bool, fault Fault) Fault {
	return func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		if match(r) {
			fault(w, r, forward)
		} else {
			forward.ServeHTTP(w, r)
		}
	}
}

// LoseRequest takes the request and cuts the connection; the server never sees it.
func LoseRequest(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
	_, _ = io.Copy(io.Discard, r.Body)
	panic(http.ErrAbortHandler)
}

// LoseReply lets the server answer, and cuts the connection instead of passing the answer on.
func LoseReply(_ http.ResponseWriter, r *http.Request, forward http.Handler) {
	forward.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

// Late keeps requests until they are released. The zero value is ready to use.
type Late struct {
	mu   sync.Mutex
	kept []func() int
}

// Keep takes the request and cuts the connection; the server sees it at Release.
func (l *Late) Keep(_ http.ResponseWriter, r *http.Request, forward http.Handler) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		late := r.Clone(context.WithoutCancel(r.Context()))
		l.mu.Lock()
		l.kept = append(l.kept, func() int {
			late.Body = io.NopCloser(bytes.NewReader(body))
			w := httptest.NewRecorder()
			forward.ServeHTTP(w, late)
			return w.Code
		})
		l.mu.Unlock()
	}
	panic(http.ErrAbortHandler)
}

// Release lets the server have the requests that were kept, and returns the statuses of its answers.
func (l *Late) Release() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	var statuses []int
	for _, send := range l.kept {
		statuses = append(statuses, send())
	}
	l.kept = nil
	return statuses
}
