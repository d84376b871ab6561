package httpfault_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fencedlock/fencedlock/internal/httpfault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server writes down what it gets, and answers with the host that it was asked for.
type server struct {
	*httptest.Server
	got  chan string
	open chan struct{} // closed: it answers
}

func newServer(t *testing.T) *server {
	s := &server{got: make(chan string, 10), open: make(chan struct{})}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s.got <- string(body)
		<-s.open
		_, _ = io.WriteString(w, r.Host)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) address() string { return s.Listener.Addr().String() }

// all returns what has come since the last call.
func (s *server) all() (got []string) {
	for len(s.got) > 0 {
		got = append(got, <-s.got)
	}
	return got
}

// put returns what the server answers.
func put(ctx context.Context, t *testing.T, address, body string) (string, error) {
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+address+"/x", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Do(req)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(r.Body)
	return string(text), errors.Join(err, r.Body.Close())
}

func puts(r *http.Request) bool { return r.Method == http.MethodPut }

func TestEachFaultDoesWhatItSays(t *testing.T) {
	s := newServer(t)
	close(s.open)
	p := httpfault.New(t, s.address())
	var late httpfault.Late
	for name, c := range map[string]struct {
		fault httpfault.Fault
		fails bool
		got   []string // by the server
	}{
		"pass":         {nil, false, []string{"body"}},
		"lose request": {httpfault.LoseRequest, true, nil},
		"lose reply":   {httpfault.LoseReply, true, []string{"body"}},
		"repeat":       {httpfault.Repeat, false, []string{"body", "body"}},
		"late":         {late.Keep, true, nil},
		"not matched":  {httpfault.Only(func(r *http.Request) bool { return !puts(r) }, httpfault.LoseRequest), false, []string{"body"}},
	} {
		p.Set(c.fault)
		if _, err := put(t.Context(), t, p.Address, "body"); (err != nil) != c.fails {
			t.Errorf("%s: the client hears %v; it is to fail: %t", name, err, c.fails)
		}
		if got := s.all(); !slices.Equal(got, c.got) {
			t.Errorf("%s: the server got %q; want %q", name, got, c.got)
		}
	}
	if statuses := late.Release(); !slices.Equal(statuses, []int{http.StatusOK}) || !slices.Equal(s.all(), []string{"body"}) {
		t.Errorf("released, the late request was answered %v", statuses)
	}
	if statuses := late.Release(); len(statuses) != 0 {
		t.Errorf("it was released twice: %v", statuses)
	}

	once, came := httpfault.Once(puts, httpfault.LoseRequest)
	p.Set(once)
	select {
	case <-came:
		t.Error("it has come before anything did")
	default:
	}
	_, first := put(t.Context(), t, p.Address, "first")
	<-came
	_, second := put(t.Context(), t, p.Address, "second")
	if first == nil || second != nil || !slices.Equal(s.all(), []string{"second"}) {
		t.Errorf("once: %v, and then %v", first, second)
	}
}

// A server may look for its own name in the request, or for a signature of the one that the client has written.
func TestTheHostIsTheServersUnlessItIsKept(t *testing.T) {
	s := newServer(t)
	close(s.open)
	p, kept := httpfault.New(t, s.address()), httpfault.New(t, s.address(), httpfault.KeepHost)
	if host, err := put(t.Context(), t, p.Address, ""); err != nil || host != s.address() {
		t.Errorf("the host is %q, %v; want %q", host, err, s.address())
	}
	if host, err := put(t.Context(), t, kept.Address, ""); err != nil || host != kept.Address {
		t.Errorf("the host is %q, %v; want %q", host, err, kept.Address)
	}
}

func TestNoRequestIsWithTheServerWhileItIsLeftAlone(t *testing.T) {
	s := newServer(t)
	p := httpfault.New(t, s.address())
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := put(t.Context(), t, p.Address, "under way"); err != nil {
			t.Errorf("the request that was under way: %v", err)
		}
	})
	<-s.got
	var late httpfault.Late
	var answered atomic.Bool
	wg.Go(func() {
		err := p.Alone(func() error {
			if !answered.Load() {
				t.Error("a request is still there")
			}
			if _, err := put(t.Context(), t, p.Address, "meanwhile"); err == nil {
				t.Error("a request was let through")
			}
			p.Set(late.Keep)
			_, _ = put(t.Context(), t, p.Address, "late")
			if statuses := late.Release(); !slices.Equal(statuses, []int{0}) {
				t.Errorf("a late one was let through, and answered %v", statuses)
			}
			p.Set(nil)
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	time.Sleep(50 * time.Millisecond) // until it waits
	answered.Store(true)
	close(s.open)
	wg.Wait()
	if got := s.all(); len(got) != 0 {
		t.Errorf("the server got %q", got)
	}
	if _, err := put(t.Context(), t, p.Address, "afterwards"); err != nil || !slices.Equal(s.all(), []string{"afterwards"}) {
		t.Errorf("afterwards: %v", err)
	}
}

// What is with the server is carried out, and counts as there, although its client has gone.
func TestAClientThatLeavesTakesNothingBack(t *testing.T) {
	s := newServer(t)
	p := httpfault.New(t, s.address())
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if _, err := put(ctx, t, p.Address, "body"); !errors.Is(err, context.Canceled) {
			t.Errorf("the client hears %v", err)
		}
	}()
	<-s.got
	leave()
	<-gone
	alone := make(chan struct{})
	go func() {
		defer close(alone)
		_ = p.Alone(func() error { return nil })
	}()
	select {
	case <-alone:
		t.Error("the request does not count any more")
	case <-time.After(100 * time.Millisecond):
	}
	close(s.open)
	<-alone
}
