//go:build unix

package s3test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// Fault is what a [Proxy] does to a request.
type Fault int

const (
	// Pass hands the request to the server and the answer back.
	Pass Fault = iota
	// LoseRequest cuts the client off; the server hears nothing.
	LoseRequest
	// LoseReply hands the request to the server, and cuts the client off when it has answered.
	LoseReply
	// DelayRequest cuts the client off, and hands the request to the server when Release is called.
	DelayRequest
	// Repeat hands the request to the server twice, and the second answer back, as a client or a proxy does that tries again
	// in secret.
	Repeat
	// DropConditions hands the request to the server without If-Match and If-None-Match, as a server would see it that does not
	// know them.
	DropConditions
	// Fail answers 503 without asking the server.
	Fail
)

// Proxy stands between clients and a server. It knows enough of S3 to sign a request that it has changed.
type Proxy struct {
	t         testing.TB
	target    string
	transport *http.Transport
	server    *http.Server
	address   string

	mu      sync.Mutex
	plan    func(*http.Request) Fault // guarded by mu
	log     []*http.Request           // without bodies; guarded by mu
	delayed []func() int              // each returns the status; guarded by mu
}

// NewProxy starts a proxy in front of the server at host:port. It ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{t: t, target: target, address: l.Addr().String(), transport: &http.Transport{MaxIdleConnsPerHost: 64, ExpectContinueTimeout: time.Second, DisableCompression: true}}
	p.server = &http.Server{Handler: http.HandlerFunc(p.serve)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = p.server.Serve(l) // always an error, that of Close
	}()
	t.Cleanup(func() {
		_ = p.server.Close()
		<-done
		p.transport.CloseIdleConnections()
	})
	return p
}

// Address is the proxy's host and port.
func (p *Proxy) Address() string { return p.address }

// Set makes plan decide about each request from now on; nil lets all pass. It is called for one request at a time.
func (p *Proxy) Set(plan func(*http.Request) Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plan = plan
}

// Once makes one fault strike the next PUT. The channel is closed when it does.
func (p *Proxy) Once(f Fault) <-chan struct{} {
	struck := make(chan struct{})
	done := false
	p.Set(func(r *http.Request) Fault {
		if done || r.Method != http.MethodPut {
			return Pass
		}
		done = true
		close(struck)
		return f
	})
	return struck
}

// Requests returns what has come since the last call, bodies aside.
func (p *Proxy) Requests() []*http.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	log := p.log
	p.log = nil
	return log
}

// Release lets the requests of DelayRequest go to the server, and returns the statuses of its answers.
func (p *Proxy) Release() []int {
	p.mu.Lock()
	delayed := p.delayed
	p.delayed = nil
	p.mu.Unlock()
	var statuses []int
	for _, send := range delayed {
		statuses = append(statuses, send())
	}
	return statuses
}

func (p *Proxy) decide(r *http.Request) Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log, r)
	if p.plan == nil {
		return Pass
	}
	return p.plan(r)
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	f := p.decide(r)
	if f == Pass {
		p.answer(w, r.Context(), r, r.Body)
		return
	}
	// The whole body is here before anything is cut, so that the client cannot know where.
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	switch f {
	case LoseReply:
		p.discard(r, body)
		panic(http.ErrAbortHandler)
	case DelayRequest:
		p.mu.Lock()
		p.delayed = append(p.delayed, func() int { return p.discard(r, body) })
		p.mu.Unlock()
		panic(http.ErrAbortHandler)
	case Repeat:
		p.discard(r, body)
	case DropConditions:
		r.Header.Del("If-Match")
		r.Header.Del("If-None-Match")
		if err := sign(r); err != nil {
			p.t.Error(err)
		}
	case Fail:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case LoseRequest:
		panic(http.ErrAbortHandler)
	}
	p.answer(w, r.Context(), r, bytes.NewReader(body))
}

// send hands a request to the server. The client may have gone by then.
func (p *Proxy) send(ctx context.Context, r *http.Request, body io.Reader) (*http.Response, error) {
	out := r.Clone(ctx)
	out.URL.Scheme, out.URL.Host, out.RequestURI = "http", p.target, ""
	out.Body = io.NopCloser(body)
	if r.ContentLength == 0 {
		out.Body = http.NoBody
	}
	out.Header.Del("Connection")
	return p.transport.RoundTrip(out)
}

func (p *Proxy) answer(w http.ResponseWriter, ctx context.Context, r *http.Request, body io.Reader) {
	resp, err := p.send(ctx, r, body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer resp.Body.Close()
	for k, v := range resp.Header {
		w.Header()[k] = v
	}
	w.Header().Del("Connection")
	w.WriteHeader(resp.StatusCode)
	if _, err := io.Copy(w, resp.Body); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// discard sends a request whose answer nobody gets, and returns its status, 0 for none.
func (p *Proxy) discard(r *http.Request, body []byte) int {
	resp, err := p.send(context.Background(), r, bytes.NewReader(body))
	if err != nil {
		p.t.Errorf("s3test: %s %s: %v", r.Method, r.URL.Path, err)
		return 0
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode
}

// sign signs a changed request as the client would have done.
func sign(r *http.Request) error {
	r.Header.Del("Authorization")
	r.URL.Host = r.Host
	hash := r.Header.Get("X-Amz-Content-Sha256")
	return v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }).SignHTTP(
		r.Context(), aws.Credentials{AccessKeyID: accessKey, SecretAccessKey: secretKey}, r, hash, "s3", region, time.Now())
}
