//go:build unix

package s3test

import (
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/fencedlock/fencedlock/internal/httpfault"
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
	t    testing.TB
	http *httpfault.Proxy
	late httpfault.Late

	mu   sync.Mutex
	plan func(*http.Request) Fault // guarded by mu
	log  []*http.Request           // without bodies; guarded by mu
}

// NewProxy starts a proxy in front of the server at host:port. It ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p := &Proxy{t: t, http: httpfault.New(t, target, httpfault.KeepHost)}
	p.http.Set(p.serve)
	return p
}

// Address is the proxy's host and port.
func (p *Proxy) Address() string { return p.http.Address }

// Set makes plan decide about each request from now on; nil lets all pass. It is called for one request at a time.
func (p *Proxy) Set(plan func(*http.Request) Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plan = plan
}

// Once makes one fault strike the next upload. The channel is closed when it does.
func (p *Proxy) Once(f Fault) <-chan struct{} {
	struck := make(chan struct{})
	done := false
	p.Set(func(r *http.Request) Fault {
		if done || !Upload(r) {
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

// Release lets the requests of DelayRequest go to the server, and returns the statuses of its answers, 0 for none.
func (p *Proxy) Release() []int { return p.late.Release() }

func (p *Proxy) decide(r *http.Request) Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log, r)
	if p.plan == nil {
		return Pass
	}
	return p.plan(r)
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request, forward http.Handler) {
	switch p.decide(r) {
	case Pass:
		forward.ServeHTTP(w, r)
	case LoseRequest:
		httpfault.LoseRequest(w, r, forward)
	case LoseReply:
		httpfault.LoseReply(w, r, forward)
	case DelayRequest:
		p.late.Keep(w, r, forward)
	case Repeat:
		httpfault.Repeat(w, r, forward)
	case DropConditions:
		r.Header.Del("If-Match")
		r.Header.Del("If-None-Match")
		if err := sign(r); err != nil {
			p.t.Error(err)
		}
		forward.ServeHTTP(w, r)
	case Fail:
		_, _ = io.Copy(io.Discard, r.Body) // whatever has come of it
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// sign signs a changed request as the client would have done.
func sign(r *http.Request) error {
	r.Header.Del("Authorization")
	r.URL.Host = r.Host
	hash := r.Header.Get("X-Amz-Content-Sha256")
	return v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }).SignHTTP(
		r.Context(), aws.Credentials{AccessKeyID: accessKey, SecretAccessKey: secretKey}, r, hash, "s3", region, time.Now())
}
