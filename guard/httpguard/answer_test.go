package httpguard_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/httpguard"
)

// Others answer 412 as well, to If-Match for instance, and others have problems. ErrStale is what was said by a server that
// has seen a higher token for this resource, and nothing less.
func TestOnlyARefusalOfThisVeryRequestIsBelieved(t *testing.T) {
	type answer struct {
		status            int
		contentType, body string
	}
	const stale = `{"type":"urn:fencedlock:stale-token","title":"x","status":412,"resource":"a","token":"7","highest":"9"}`
	var now answer
	onEach(t, func(t *testing.T, proto string) {
		url, base := serve(t, proto, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", now.contentType)
			w.WriteHeader(now.status)
			_, _ = io.WriteString(w, now.body)
		}))
		ask := func() (*http.Response, error) {
			return put(guard.NewContext(t.Context(), "a", 7), &httpguard.Transport{Base: base}, url, "v")
		}
		for _, ct := range []string{"application/problem+json", "Application/Problem+JSON; charset=utf-8"} {
			now = answer{412, ct, stale}
			if _, err := ask(); !errors.Is(err, guard.ErrStale) {
				t.Fatalf("%s: %v", ct, err)
			}
		}
		const problem = "application/problem+json"
		replace := func(old, with string) string { return strings.Replace(stale, old, with, 1) }
		for what, c := range map[string]answer{
			"a bare 412":                  {412, "text/plain", "precondition failed"},
			"nothing":                     {412, "", ""},
			"another content type":        {412, "application/json", stale},
			"a content type that is none": {412, "application/problem+json; x", stale},
			"another problem":             {412, problem, replace("urn:fencedlock:stale-token", "about:blank")},
			"no problem":                  {412, problem, "[]"},
			"half a problem":              {412, problem, stale[:40]},
			"another status":              {409, problem, stale},
			"success":                     {200, problem, stale},
			"another resource":            {412, problem, replace(`"a"`, `"b"`)},
			"no resource":                 {412, problem, replace(`"resource":"a",`, "")},
			"another token":               {412, problem, replace(`"7"`, `"6"`)},
			"a token that is a number":    {412, problem, replace(`"7"`, `7`)},
			"no token":                    {412, problem, replace(`"token":"7",`, "")},
			"the mark is the token":       {412, problem, replace(`"9"`, `"7"`)},
			"the mark is lower":           {412, problem, replace(`"9"`, `"6"`)},
			"no mark":                     {412, problem, replace(`,"highest":"9"`, "")},
			"a mark that is none":         {412, problem, replace(`"9"`, `"9.0"`)},
			"a mark that is negative":     {412, problem, replace(`"9"`, `"-9"`)},
			"a mark beyond all":           {412, problem, replace(`"9"`, `"9223372036854775808"`)},
			"too long":                    {412, problem, replace(`"x"`, `"`+strings.Repeat("x", 100<<10)+`"`)},
			"an unknown type":             {500, problem, `{"type":"urn:example:unknown","status":500}`},
		} {
			now = c
			resp, err := ask()
			if err != nil {
				t.Errorf("%s: %v; want the response", what, err)
				continue
			}
			if got := text(t, resp); resp.StatusCode != c.status || got != c.body {
				t.Errorf("%s: %s, %d bytes; want all of the answer", what, resp.Status, len(got))
			}
		}
		// A request without a token was not refused for being late.
		now = answer{412, problem, stale}
		resp, err := put(t.Context(), &httpguard.Transport{Base: base}, url, "v")
		if err != nil {
			t.Fatal(err)
		}
		if got := text(t, resp); got != stale {
			t.Errorf("without a token: %s %s", resp.Status, got)
		}
	})
}

// endless is a body that never ends, and counts what was read of it.
type endless struct{ n int }

func (e *endless) Read(b []byte) (int, error) { e.n += len(b); return len(b), nil }

func TestAProblemWithoutEndIsNotReadToItsEnd(t *testing.T) {
	body := &endless{}
	rt := &httpguard.Transport{Base: roundTripperFunc(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 412, Header: http.Header{"Content-Type": {"application/problem+json"}}, Body: io.NopCloser(io.LimitReader(body, 1<<30))}, nil
	})}
	resp, err := put(guard.NewContext(t.Context(), "a", 7), rt, "http://127.0.0.1/", "v")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body.n > 1<<20 {
		t.Errorf("%d bytes were read", body.n)
	}
}

// Whatever a server answers: an error only for what is a refusal, and otherwise the answer as it came.
func FuzzAnswer(f *testing.F) {
	for _, status := range []int{200, 412, 428, 500} {
		f.Add(status, "application/problem+json", `{"type":"urn:fencedlock:stale-token","resource":"a","token":"7","highest":"9"}`)
		f.Add(status, "application/problem+json", `{"type":"urn:fencedlock:outcome-unknown"}`)
		f.Add(status, "text/plain", "no")
	}
	f.Fuzz(func(t *testing.T, status int, contentType, body string) {
		closed := &closing{Reader: strings.NewReader(body)}
		rt := &httpguard.Transport{Base: roundTripperFunc(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {contentType}}, Body: closed}, nil
		})}
		req, err := http.NewRequestWithContext(guard.NewContext(t.Context(), "a", 7), http.MethodPut, "http://127.0.0.1/", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := rt.RoundTrip(req)
		var stale *guard.StaleError
		switch {
		case err == nil:
			if got := text(t, resp); got != body {
				t.Errorf("the body became %q", got)
			}
		case errors.As(err, &stale):
			if status != 412 || stale.Resource != "a" || stale.Token != 7 || stale.Highest <= 7 || !strings.Contains(body, stale.Highest.String()) {
				t.Errorf("%d %q became %v", status, body, err)
			}
		case !(errors.Is(err, guard.ErrUnknown) && status == 500 || errors.Is(err, guard.ErrNoToken) && status == 428):
			t.Errorf("%d %q became %v", status, body, err)
		}
		if !closed.closed {
			t.Error("the body was left open")
		}
	})
}
