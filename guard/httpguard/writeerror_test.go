package httpguard_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/httpguard"
)

func TestWriteErrorAnswersTheErrorsOfGuardsOnly(t *testing.T) {
	stale := &guard.StaleError{Resource: "a", Token: 7, Highest: 9}
	secret := errors.New("dial db.internal: password is hunter2")
	for _, c := range []struct {
		err    error
		status int
		kind   string
	}{
		{stale, 412, "urn:fencedlock:stale-token"},
		{fmt.Errorf("saving: %w", stale), 412, "urn:fencedlock:stale-token"},
		{fmt.Errorf("%w: COMMIT failed: %w", guard.ErrUnknown, secret), 500, "urn:fencedlock:outcome-unknown"},
		{errors.Join(stale, guard.ErrUnknown), 500, "urn:fencedlock:outcome-unknown"}, // a retry was refused, the first try is open
		{guard.Check("a", 0, 0), 428, "urn:fencedlock:no-token"},
		{nil, 0, ""},
		{secret, 0, ""},
		{guard.ErrStale, 0, ""}, // by which mark?
		{guard.CheckResource(""), 0, ""},
	} {
		w := httptest.NewRecorder()
		for _, name := range []string{"Content-Length", "Etag", "Cache-Control"} {
			w.Header().Set(name, "5") // of the answer that was planned
		}
		if written := httpguard.WriteError(w, c.err); written != (c.status != 0) {
			t.Errorf("%v: WriteError = %v", c.err, written)
			continue
		} else if !written {
			if w.Flushed || w.Body.Len() > 0 || w.Header().Get("Content-Type") != "" || w.Header().Get("Etag") == "" {
				t.Errorf("%v: wrote %v %s", c.err, w.Header(), w.Body)
			}
			continue
		}
		if p := problemOf(t, w.Result()); w.Code != c.status || p["type"] != c.kind {
			t.Errorf("%v: %d %v", c.err, w.Code, p)
		}
		for _, name := range []string{"Content-Length", "Etag", "Cache-Control"} {
			if w.Header().Get(name) != "" {
				t.Errorf("%v: %s was left", c.err, name)
			}
		}
		if strings.Contains(w.Body.String(), "hunter2") {
			t.Errorf("%v: the client reads %s", c.err, w.Body)
		}
	}
}

func TestTheMarkTravelsAsAString(t *testing.T) {
	w := httptest.NewRecorder()
	httpguard.WriteError(w, &guard.StaleError{Resource: "é\"<\n", Token: math.MaxInt64 - 1, Highest: math.MaxInt64})
	var p struct{ Resource, Token, Highest string }
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Resource != "é\"<\n" || p.Token != "9223372036854775806" || p.Highest != "9223372036854775807" {
		t.Errorf("%+v, %v in %s", p, err, w.Body)
	}
}

// Each error of a guard arrives as what it was, whatever the resource is called.
func TestErrorsGoThereAndBack(t *testing.T) {
	onEach(t, func(t *testing.T, proto string) {
		var answer error
		conns := make(map[string]bool)
		url, base := serve(t, proto, httpguard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			conns[r.RemoteAddr] = true
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				t.Error(err)
			}
			resource, tok, _ := guard.FromContext(r.Context())
			if answer == nil {
				answer = &guard.StaleError{Resource: resource, Token: tok, Highest: math.MaxInt64}
			}
			httpguard.WriteError(w, answer)
		}), nil))
		rt := &httpguard.Transport{Base: base}
		for _, name := range []string{"account/1", "permit#3", "a, b", "100%", "Ω 鍵 🔒\n\"", strings.Repeat("\x01", 512), strings.Repeat("é", 256)} {
			for _, tok := range []guard.Token{1, 1<<53 + 1, math.MaxInt64 - 1} {
				answer = nil
				_, err := put(guard.NewContext(t.Context(), name, tok), rt, url, "v")
				var stale *guard.StaleError
				if !errors.As(err, &stale) || *stale != (guard.StaleError{Resource: name, Token: tok, Highest: math.MaxInt64}) || errors.Is(err, guard.ErrUnknown) {
					t.Errorf("%.20q, %d: %v", name, int64(tok), err)
				}
			}
		}
		for _, want := range []error{guard.ErrUnknown, guard.ErrNoToken} {
			answer = want
			_, err := put(guard.NewContext(t.Context(), "a", 7), rt, url, "v")
			if !errors.Is(err, want) || errors.Is(err, guard.ErrStale) || errors.Is(err, guard.ErrUnknown) != (want == guard.ErrUnknown) {
				t.Errorf("%v arrived as %v", want, err)
			}
		}
		if len(conns) != 1 {
			t.Errorf("%d connections were used: refusals were not read to their end", len(conns))
		}
	})
}
