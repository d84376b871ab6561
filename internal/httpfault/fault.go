package httpfault

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
)

// Fault handles a request that came to the proxy; forward passes it on to the server.
type Fault func(w http.ResponseWriter, r *http.Request, forward http.Handler)

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

// Once makes a fault of the first request that matches. The channel is closed when it comes.
func Once(match func(*http.Request) bool, fault Fault) (Fault, <-chan struct{}) {
	came := make(chan struct{})
	var struck atomic.Bool
	return Only(match, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		if !struck.CompareAndSwap(false, true) {
			forward.ServeHTTP(w, r)
			return
		}
		close(came)
		fault(w, r, forward)
	}), came
}

// whole waits for all of the request, so that a client that is cut off does not know where, and returns what makes the
// request anew.
func whole(r *http.Request) func() *http.Request {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return func() *http.Request {
		again := r.Clone(r.Context())
		again.Body = io.NopCloser(bytes.NewReader(body))
		return again
	}
}

// LoseRequest takes the request and cuts the connection; the server never sees it.
func LoseRequest(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
	whole(r)
	panic(http.ErrAbortHandler)
}

// LoseReply lets the server answer, and cuts the connection instead of passing the answer on.
func LoseReply(_ http.ResponseWriter, r *http.Request, forward http.Handler) {
	forward.ServeHTTP(httptest.NewRecorder(), whole(r)())
	panic(http.ErrAbortHandler)
}

// Repeat lets the server have the request twice, and passes the second answer on, as a client or a proxy does that tries
// again in secret.
func Repeat(w http.ResponseWriter, r *http.Request, forward http.Handler) {
	again := whole(r)
	forward.ServeHTTP(httptest.NewRecorder(), again())
	forward.ServeHTTP(w, again())
}

// Late keeps requests until they are released. The zero value is ready to use.
type Late struct {
	mu   sync.Mutex
	kept []func() int
}

// Keep takes the request and cuts the connection; the server sees it at Release.
func (l *Late) Keep(_ http.ResponseWriter, r *http.Request, forward http.Handler) {
	again := whole(r)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, func() (status int) {
		defer func() {
			if e := recover(); e != nil && e != http.ErrAbortHandler {
				panic(e)
			}
		}()
		w := httptest.NewRecorder()
		forward.ServeHTTP(w, again())
		return w.Code
	})
	panic(http.ErrAbortHandler)
}

// Release lets the server have the requests that were kept, and returns the statuses of its answers, 0 for none.
func (l *Late) Release() []int {
	l.mu.Lock()
	kept := l.kept
	l.kept = nil
	l.mu.Unlock()
	var statuses []int
	for _, send := range kept {
		statuses = append(statuses, send())
	}
	return statuses
}
