package httpguard_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/httpguard"
)

type roundTripperFunc func(*http.Request) (*http.Response, error)

func (f roundTripperFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// untouched fails the test when a request comes to it.
func untouched(t *testing.T) http.RoundTripper {
	return roundTripperFunc(func(*http.Request) (*http.Response, error) {
		t.Error("the request was sent")
		return nil, errors.New("untouched")
	})
}

// closing tells whether it was closed.
type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }

func TestWhatCannotBeRightIsNotSent(t *testing.T) {
	ended, end := context.WithCancelCause(guard.NewContext(t.Context(), "a", 7))
	end(errors.New("the lock was lost"))
	for _, c := range []struct {
		what   string
		ctx    context.Context
		header http.Header
		is     error
		says   string
	}{
		{"token 0", guard.NewContext(t.Context(), "a", 0), nil, guard.ErrNoToken, "no token"},
		{"a negative token", guard.NewContext(t.Context(), "a", -1), nil, guard.ErrNoToken, "no token"},
		{"no name", guard.NewContext(t.Context(), "", 7), nil, nil, "empty name"},
		{"a name that is no UTF-8", guard.NewContext(t.Context(), "\xff", 7), nil, nil, "UTF-8"},
		{"a context that has ended", ended, nil, context.Canceled, "the lock was lost"},
		{"another token by hand", guard.NewContext(t.Context(), "a", 7), http.Header{"Fencing-Token": {"8"}}, nil, "Fencing-Token"},
		{"another token, spelled otherwise", guard.NewContext(t.Context(), "a", 7), http.Header{"fencing-token": {"8"}}, nil, "fencing-token"},
		{"a second token by hand", guard.NewContext(t.Context(), "a", 7), http.Header{"Fencing-Token": {"7", "7"}}, nil, "Fencing-Token"},
		{"another resource by hand", guard.NewContext(t.Context(), "a", 7), http.Header{"Fencing-Resource": {"b"}}, nil, "Fencing-Resource"},
	} {
		var outcomes []error
		rt := &httpguard.Transport{Base: untouched(t), OnOutcome: func(_ context.Context, _ string, _ guard.Token, err error) { outcomes = append(outcomes, err) }}
		body := &closing{Reader: strings.NewReader("v")}
		req, err := http.NewRequestWithContext(c.ctx, http.MethodPut, "http://127.0.0.1/", body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = c.header
		resp, err := rt.RoundTrip(req)
		if resp != nil || err == nil || !strings.HasPrefix(err.Error(), "httpguard: ") || !strings.Contains(err.Error(), c.says) || c.is != nil && !errors.Is(err, c.is) || errors.Is(err, guard.ErrUnknown) {
			t.Errorf("%s: %v", c.what, err)
		}
		if !body.closed {
			t.Errorf("%s: the body was left open", c.what)
		}
		if len(outcomes) != 1 || outcomes[0] != err {
			t.Errorf("%s: outcomes %v", c.what, outcomes)
		}
	}
}

func TestTheCallersRequestStaysAsItIs(t *testing.T) {
	var sent http.Header
	rt := &httpguard.Transport{Base: roundTripperFunc(func(r *http.Request) (*http.Response, error) {
		sent = r.Header
		return &http.Response{StatusCode: 204, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
	})}
	lower := "fencing-token" // net/http would send it as it is, beside the other
	for what, header := range map[string]http.Header{
		"none":                    nil,
		"another":                 {"X": {"y"}},
		"the same by hand":        {"Fencing-Token": {"7"}},
		"the same in lower case":  {lower: {"7"}, "fencing-resource": {"a%20b"}},
		"both spellings, equal":   {lower: {"7"}, "Fencing-Token": {"7"}},
		"resource alone, by hand": {"Fencing-Resource": {"a%20b"}},
	} {
		req, err := http.NewRequestWithContext(guard.NewContext(t.Context(), "a b", 7), http.MethodPut, "http://127.0.0.1/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = header
		before := header.Clone()
		resp, err := rt.RoundTrip(req)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if resp.Request != req {
			t.Errorf("%s: the response is to another request", what)
		}
		if len(req.Header) != len(before) || req.Header.Get("X") != before.Get("X") {
			t.Errorf("%s: the header became %v", what, req.Header)
		}
		if len(sent["Fencing-Token"]) != 1 || sent.Get("Fencing-Token") != "7" || sent.Get("Fencing-Resource") != "a%20b" || sent[lower] != nil {
			t.Errorf("%s: sent %v", what, sent)
		}
	}
}

// http.Client replaces the error of a transport by one of its own when its Timeout fires, and "outcome unknown" is gone.
func TestAClientTimeoutIsRefusedSinceItHidesTheOutcome(t *testing.T) {
	hidden := &http.Client{Timeout: time.Millisecond, Transport: roundTripperFunc(func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		//lint:ignore SA1019 it ends after the client has noted that its Timeout fired
		<-r.Cancel
		return nil, guard.ErrUnknown
	})}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://127.0.0.1/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hidden.Do(req); err == nil || errors.Is(err, guard.ErrUnknown) {
		t.Fatalf("http.Client has kept the error: %v; then Transport need not refuse", err)
	}

	client := &http.Client{Timeout: time.Hour, Transport: &httpguard.Transport{Base: untouched(t)}}
	if _, err := client.Do(req.WithContext(guard.NewContext(t.Context(), "a", 7))); err == nil || !strings.Contains(err.Error(), "Client.Timeout") || !strings.Contains(err.Error(), "deadline") {
		t.Errorf("Do = %v; want advice", err)
	}
}

// A server that demands a token says so, and the client learns what it forgot.
func TestARequestWithoutATokenIsSentAndTheRefusalNamesTheContext(t *testing.T) {
	onEach(t, func(t *testing.T, proto string) {
		s := newStore(t)
		url, base := serve(t, proto, s.handler(t))
		rt := &httpguard.Transport{Base: base, OnOutcome: func(context.Context, string, guard.Token, error) { t.Error("an outcome without a token") }}
		_, err := put(t.Context(), rt, url, "v")
		if !errors.Is(err, guard.ErrNoToken) || !strings.Contains(err.Error(), "context of the held lock") {
			t.Errorf("a write: %v", err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := (&http.Client{Transport: rt}).Do(req)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("a read: %v, %v", resp, err)
		}
		text(t, resp)
	})
}

func TestOutcomesOfAnsweredRequests(t *testing.T) {
	s := newStore(t)
	url, base := serve(t, "HTTP/1.1", s.handler(t))
	var got []string
	rt := &httpguard.Transport{Base: base, OnOutcome: func(_ context.Context, r string, tok guard.Token, err error) {
		got = append(got, r+" "+tok.String())
		if err != nil {
			got = append(got, err.Error())
		}
	}}
	for _, tok := range []guard.Token{9, 7} {
		if resp, err := put(guard.NewContext(t.Context(), "a", tok), rt, url, "v"); err == nil {
			text(t, resp)
		}
	}
	want := []string{"a 9", "a 7", (&guard.StaleError{Resource: "a", Token: 7, Highest: 9}).Error()}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q; want %q", got, want)
	}
}

// The token is of the context, and so are the requests that follow a redirect.
func TestTheTokenFollowsARedirect(t *testing.T) {
	second, _ := serve(t, "HTTP/1.1", httpguard.Handler(http.HandlerFunc(admitting), nil))
	first, base := serve(t, "HTTP/1.1", httpguard.Handler(http.RedirectHandler(second, http.StatusTemporaryRedirect), nil))
	resp, err := put(guard.NewContext(t.Context(), "a", 7), &httpguard.Transport{Base: base}, first, "v")
	if err != nil {
		t.Fatal(err)
	}
	if got := text(t, resp); got != `"a" 7 true` {
		t.Errorf("%s: %s", resp.Status, got)
	}
}
