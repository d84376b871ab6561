// Package httpfault puts a proxy in front of an HTTP server, for tests: it loses requests and replies, and holds them up.
package httpfault

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
	"time"
)

// Proxy is a proxy on a port of 127.0.0.1. Its methods are safe for concurrent use.
//
// What has come in whole is carried out, also when the client leaves: on a network it could not be called back either.
type Proxy struct {
	Address string // host and port

	forward http.Handler
	there   sync.RWMutex // held for reading while a request is with the server

	mu    sync.Mutex
	fault Fault
}

// New starts a proxy in front of the server at host:port, and ends it with the test. The edits are made to each request
// that is passed on.
func New(t testing.TB, server string, edits ...func(*httputil.ProxyRequest)) *Proxy {
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64, ExpectContinueTimeout: time.Second}
	discard := log.New(io.Discard, "", 0)
	p := &Proxy{forward: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: server})
			for _, edit := range edits {
				edit(r)
			}
		},
		Transport: transport,
		ErrorLog:  discard,
		// An answer of the proxy's own would be one that the server never gave.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}}
	s := httptest.NewUnstartedServer(p)
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

// KeepHost leaves the host that the client has written, for servers whose requests are signed with it.
func KeepHost(r *httputil.ProxyRequest) { r.Out.Host = r.In.Host }

// Set makes the fault handle all requests from now on; nil: they are passed on.
func (p *Proxy) Set(fault Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = fault
}

// Alone runs fn while no request is with the server: it waits for those that are, and cuts off those that come.
func (p *Proxy) Alone(fn func() error) error {
	p.there.Lock()
	defer p.there.Unlock()
	return fn()
}

// ServeHTTP handles a client's request.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	fault := p.fault
	p.mu.Unlock()
	if fault == nil {
		p.pass(w, r)
		return
	}
	fault(w, r, http.HandlerFunc(p.pass))
}

func (p *Proxy) pass(w http.ResponseWriter, r *http.Request) {
	if !p.there.TryRLock() {
		panic(http.ErrAbortHandler)
	}
	defer p.there.RUnlock()
	// With a context that can end, since a ReverseProxy looks for a client that leaves if it cannot.
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	p.forward.ServeHTTP(w, r.WithContext(ctx))
}
