package httpguard_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/httpguard"
)

// unknown fails the test unless err says that nobody knows, and nothing else of a guard.
func unknown(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, guard.ErrUnknown) || errors.Is(err, guard.ErrStale) || errors.Is(err, guard.ErrNoToken) {
		t.Errorf("%s: %v; want ErrUnknown", what, err)
	}
}

func TestALostReplyIsUnknown(t *testing.T) {
	onEach(t, func(t *testing.T, proto string) {
		s := newStore(t)
		url, base := serve(t, proto, losing(s.handler(t)))
		var outcomes []error
		rt := &httpguard.Transport{Base: base, OnOutcome: func(_ context.Context, _ string, _ guard.Token, err error) { outcomes = append(outcomes, err) }}
		for i, fault := range []string{"reply", "request"} {
			req, err := http.NewRequestWithContext(guard.NewContext(t.Context(), "a", 7), http.MethodPut, url, strings.NewReader(fault))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set(faultHeader, fault)
			resp, err := (&http.Client{Transport: rt}).Do(req)
			if resp != nil {
				t.Errorf("%s: a response beside the error", fault)
			}
			unknown(t, fault, err)
			if len(outcomes) != i+1 || !errors.Is(outcomes[i], guard.ErrUnknown) {
				t.Errorf("%s: outcomes %v", fault, outcomes)
			}
		}
		if got := s.read(t, "a"); got != "reply" {
			t.Errorf("stored %q; of both the first was", got)
		}
	})
}

func TestACallThatEndsWhileTheServerWorksIsUnknown(t *testing.T) {
	onEach(t, func(t *testing.T, proto string) {
		inside := make(chan func())
		address, base := serve(t, proto, httpguard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err != nil { // else a broken connection would not be noticed
				t.Error(err)
			}
			end := <-inside
			end()
			<-r.Context().Done()
		}), nil))
		for what, err := range map[string]error{"cancelled": context.Canceled, "deadline": context.DeadlineExceeded} {
			ctx := newManual(guard.NewContext(t.Context(), "a", 7), err)
			done := make(chan error)
			go func() {
				resp, err := put(ctx, &httpguard.Transport{Base: base}, address, "v")
				if err == nil {
					_ = resp.Body.Close()
				}
				done <- err
			}()
			inside <- ctx.end
			got := <-done
			unknown(t, what, got)
			if !errors.Is(got, err) {
				t.Errorf("%s: %v does not say why", what, got)
			}
			var ue *url.Error
			if !errors.As(got, &ue) || ue.Timeout() != (what == "deadline") {
				t.Errorf("%s: Timeout is not told by %v", what, got)
			}
		}
	})
}

// manual is a context that ends when it is told to, with the error it was made for.
type manual struct {
	context.Context
	done chan struct{}
	err  error
	over atomic.Bool
}

func newManual(parent context.Context, err error) *manual {
	return &manual{Context: parent, done: make(chan struct{}), err: err}
}

func (m *manual) Done() <-chan struct{} { return m.done }
func (m *manual) end()                  { m.over.Store(true); close(m.done) }
func (m *manual) Err() error {
	if m.over.Load() {
		return m.err
	}
	return nil
}

// A refusal of which only the beginning arrives may have been any.
func TestAnAnswerThatBreaksOffIsUnknown(t *testing.T) {
	onEach(t, func(t *testing.T, proto string) {
		url, base := serve(t, proto, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusPreconditionFailed)
			_, _ = io.WriteString(w, `{"type":"urn:fencedlock:stale-token","status":412,`)
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			panic(http.ErrAbortHandler)
		}))
		_, err := put(guard.NewContext(t.Context(), "a", 7), &httpguard.Transport{Base: base}, url, "v")
		unknown(t, "broken off", err)
	})
}

func TestWhatHadNoConnectionWasNotSent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := "http://" + l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	secure, _ := serve(t, "HTTP/2.0", untouchedHandler(t))
	distrusting := &http.Transport{}
	defer distrusting.CloseIdleConnections()
	for what, url := range map[string]string{"refused": closed, "unknown authority": secure} {
		_, err := put(guard.NewContext(t.Context(), "a", 7), &httpguard.Transport{Base: distrusting}, url, "v")
		if err == nil || errors.Is(err, guard.ErrUnknown) || !strings.Contains(err.Error(), "httpguard: not sent") {
			t.Errorf("%s: %v; want an error that is certain", what, err)
		}
		if what == "refused" && !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%v does not wrap the cause", err)
		}
	}

	// Of one that reports nothing, an error proves nothing, also one that looks like the first.
	mute := roundTripperFunc(func(*http.Request) (*http.Response, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	})
	_, err = put(guard.NewContext(t.Context(), "a", 7), &httpguard.Transport{Base: mute}, closed, "v")
	unknown(t, "a base that tells nothing", err)
}

func untouchedHandler(t *testing.T) http.Handler {
	return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request arrived") })
}

// http.Transport sends a request with an Idempotency-Key again when a used connection breaks, and its caller sees the second
// try only: https://github.com/golang/go/issues/22158, https://github.com/golang/go/issues/19943
func TestARequestThatWasSentTwiceIsUnknownWhateverTheSecondTrySays(t *testing.T) {
	for what, c := range map[string]struct {
		then   func(s *store, l net.Listener) // after the first try was applied, before its connection breaks
		tries  int32
		stored string
	}{
		"the second is refused as stale": {func(s *store, _ net.Listener) {
			if err := s.exec(guard.NewContext(context.Background(), "a", 9), upsert, "a", "successor"); err != nil {
				t.Error(err)
			}
		}, 2, "successor"},
		"the second finds no server": {func(_ *store, l net.Listener) { _ = l.Close() }, 1, "v"},
	} {
		t.Run(what, func(t *testing.T) {
			s := newStore(t)
			var tries atomic.Int32
			var server *httptest.Server
			inner := s.handler(t)
			server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPut || tries.Add(1) > 1 {
					inner.ServeHTTP(w, r)
					return
				}
				inner.ServeHTTP(discarding{make(http.Header)}, r)
				c.then(s, server.Listener)
				panic(http.ErrAbortHandler)
			}))
			t.Cleanup(server.Close)
			base := server.Client().Transport.(*http.Transport)
			defer base.CloseIdleConnections()
			rt := &httpguard.Transport{Base: base}
			call := func(method string) error {
				req, err := http.NewRequestWithContext(guard.NewContext(t.Context(), "a", 7), method, server.URL, strings.NewReader("v"))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Idempotency-Key", guard.IdempotencyKey("a", "save v"))
				resp, err := (&http.Client{Transport: rt}).Do(req)
				if err == nil {
					text(t, resp)
				}
				return err
			}
			if err := call(http.MethodGet); err != nil { // now there is a used connection
				t.Fatal(err)
			}
			unknown(t, what, call(http.MethodPut))
			if n := tries.Load(); n != c.tries {
				t.Errorf("%d tries arrived; want %d", n, c.tries)
			}
			if got := s.read(t, "a"); got != c.stored {
				t.Errorf("stored %q; want %q", got, c.stored)
			}
		})
	}
}
