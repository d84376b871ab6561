package httpguard_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/httpguard"
)

// admitting says which resource and token a request was admitted with.
func admitting(w http.ResponseWriter, r *http.Request) {
	resource, tok, ok := guard.FromContext(r.Context())
	fmt.Fprintf(w, "%q %d %v", resource, int64(tok), ok)
}

// problemOf reads a refusal.
func problemOf(t *testing.T, resp *http.Response) map[string]any {
	t.Helper()
	if ct := resp.Header.Get("Content-Type"); ct != "application/problem+json" {
		t.Errorf("Content-Type is %q", ct)
	}
	var p map[string]any
	if body := text(t, resp); json.Unmarshal([]byte(body), &p) != nil {
		t.Errorf("no JSON: %q", body)
	}
	if p["status"] != float64(resp.StatusCode) || p["title"] == "" || p["detail"] == "" {
		t.Errorf("status %d, problem %v", resp.StatusCode, p)
	}
	return p
}

// Which of two values is used, the first, the last or both joined, differs from stack to stack, and proxies add and strip:
// https://github.com/grpc/grpc-java/issues/3017, https://github.com/tinfoilsh/encrypted-http-body-protocol/issues/104
func TestOneCanonicalTokenIsAdmittedAndNothingElse(t *testing.T) {
	onEach(t, func(t *testing.T, proto string) {
		var outcomes []error
		url, base := serve(t, proto, httpguard.Handler(http.HandlerFunc(admitting), &httpguard.Options{
			OnOutcome: func(_ context.Context, _ string, _ guard.Token, err error) { outcomes = append(outcomes, err) },
		}))
		name := []string{"account/1"}
		for _, c := range []struct {
			what              string
			tokens, resources []string
			status            int
		}{
			{"one", []string{"9"}, name, 200},
			{"the highest", []string{"9223372036854775807"}, name, 200},
			{"an escaped name", []string{"9"}, []string{"a%2C%20b%23"}, 200},
			{"nothing", nil, nil, 428},
			{"the resource alone", nil, name, 428},
			{"the token alone", []string{"9"}, nil, 400},
			{"two values", []string{"5", "9"}, name, 400},
			{"one value twice", []string{"9", "9"}, name, 400},
			{"two resources", []string{"9"}, []string{"account/1", "account/2"}, 400},
			{"joined by a proxy", []string{"5,9"}, name, 400},
			{"joined by another proxy", []string{"9, 9"}, name, 400},
			{"joined resources", []string{"9"}, []string{"account/1, account/1"}, 400},
			{"empty", []string{""}, name, 400},
			{"a blank inside", []string{"9 9"}, name, 400},
			{"a plus", []string{"+9"}, name, 400},
			{"a fraction", []string{"9.0"}, name, 400},
			{"an exponent", []string{"1e3"}, name, 400},
			{"hexadecimal", []string{"0x9"}, name, 400},
			{"a leading zero", []string{"09"}, name, 400},
			{"zero", []string{"0"}, name, 400},
			{"negative", []string{"-9"}, name, 400},
			{"overflow", []string{"9223372036854775808"}, name, 400},
			{"wrapping to 9", []string{"18446744073709551625"}, name, 400},
			{"a string", []string{`"9"`}, name, 400},
			{"an empty name", []string{"9"}, []string{""}, 400},
			{"a name in Latin-1", []string{"9"}, []string{"caf\xe9"}, 400},
			{"an escape in lower case", []string{"9"}, []string{"a%2cb"}, 400},
			{"an escape without need", []string{"9"}, []string{"%61ccount/1"}, 400},
			{"NUL", []string{"9"}, []string{"a%00"}, 400},
			{"a long name", []string{"9"}, []string{strings.Repeat("a", 513)}, 400},
		} {
			outcomes = nil
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, strings.NewReader("value"))
			if err != nil {
				t.Fatal(err)
			}
			req.Header["Fencing-Token"], req.Header["Fencing-Resource"] = c.tokens, c.resources
			resp, err := base.RoundTrip(req)
			if err != nil {
				t.Fatalf("%s: %v", c.what, err)
			}
			if resp.Proto != proto {
				t.Fatalf("the server speaks %s", resp.Proto)
			}
			if resp.StatusCode != c.status {
				t.Errorf("%s: %s; want %d", c.what, resp.Status, c.status)
			}
			want := map[int]string{428: "urn:fencedlock:no-token", 400: "urn:fencedlock:malformed-token"}[c.status]
			switch {
			case c.status == 200:
				if got := text(t, resp); !strings.HasSuffix(got, " true") || !strings.Contains(got, c.tokens[0]) {
					t.Errorf("%s: the handler found %s", c.what, got)
				}
			case problemOf(t, resp)["type"] != want:
				t.Errorf("%s: want a problem of type %s", c.what, want)
			}
			if len(outcomes) != 1 || (outcomes[0] == nil) != (c.status == 200) {
				t.Errorf("%s: outcomes %v; want one", c.what, outcomes)
			} else if err := outcomes[0]; c.status == 428 && !errors.Is(err, guard.ErrNoToken) || err != nil && !strings.HasPrefix(err.Error(), "httpguard: ") {
				t.Errorf("%s: outcome %v", c.what, err)
			}
		}
	})
}

// What a client library would not send: names in other cases, a folded line, blanks, a trailer.
func TestTheWireMayBeSpelledOtherwiseButNotTheValue(t *testing.T) {
	url, _ := serve(t, "HTTP/1.1", httpguard.Handler(http.HandlerFunc(admitting), nil))
	send := func(lines ...string) *http.Response {
		t.Helper()
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		raw := "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + strings.Join(lines, "\r\n")
		if !strings.Contains(raw, "\r\n\r\n") {
			raw += "\r\n\r\n"
		}
		if _, err := io.WriteString(conn, raw); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body = io.NopCloser(strings.NewReader(string(body)))
		return resp
	}
	for what, lines := range map[string][]string{
		"upper case":                    {"FENCING-TOKEN: 9", "FENCING-RESOURCE: a"},
		"lower case":                    {"fencing-token: 9", "fencing-resource: a"},
		"blanks that HTTP does not see": {"Fencing-Token: \t 9 ", "Fencing-Resource:a"}, // RFC 9110, section 5.5
	} {
		if resp := send(lines...); resp.StatusCode != 200 {
			t.Errorf("%s: %s: %v", what, resp.Status, text(t, resp))
		} else if got := text(t, resp); got != `"a" 9 true` {
			t.Errorf("%s: the handler found %s", what, got)
		}
	}
	for what, c := range map[string]struct {
		status int
		lines  []string
	}{
		"twice in two spellings": {400, []string{"Fencing-Token: 9", "fencing-token: 9", "Fencing-Resource: a"}},
		"folded over two lines":  {400, []string{"Fencing-Token: 5", " 9", "Fencing-Resource: a"}},
		"underscores":            {428, []string{"Fencing_Token: 9", "Fencing_Resource: a"}},
		"a trailer": {428, []string{"Transfer-Encoding: chunked", "Trailer: Fencing-Token, Fencing-Resource", "",
			"1", "x", "0", "Fencing-Token: 9", "Fencing-Resource: a", "", ""}},
	} {
		if resp := send(c.lines...); resp.StatusCode != c.status {
			t.Errorf("%s: %s: %v; want %d", what, resp.Status, text(t, resp), c.status)
		}
	}
}

func TestATokenForAnotherResourceThanTheRequestWritesIsRefused(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("PUT /accounts/{id}", httpguard.Handler(http.HandlerFunc(admitting), &httpguard.Options{
		Resource: func(r *http.Request) string { return "account/" + r.PathValue("id") },
	}))
	mux.Handle("PUT /nothing", httpguard.Handler(http.HandlerFunc(admitting), &httpguard.Options{
		Resource: func(r *http.Request) string { return "" }, // the server's mistake
	}))
	url, base := serve(t, "HTTP/1.1", mux)
	rt := &httpguard.Transport{Base: base}
	ctx := guard.NewContext(t.Context(), "account/1", 9)
	for path, want := range map[string]int{"/accounts/1": 200, "/accounts/2": 400, "/nothing": 500} {
		resp, err := put(ctx, rt, url+path, "")
		if err != nil {
			t.Fatal(err)
		}
		says := map[int]string{200: `"account/1" 9 true`, 400: `for the resource \"account/1\", and the request writes \"account/2\"`, 500: "named no resource"}[want]
		if got := text(t, resp); resp.StatusCode != want || !strings.Contains(got, says) {
			t.Errorf("%s: %s: %s; want %d and %q", path, resp.Status, got, want, says)
		}
	}
}

func TestOptionalLetsPassWhatHasNeitherHeader(t *testing.T) {
	h := httpguard.Handler(http.HandlerFunc(admitting), &httpguard.Options{
		Optional:  func(r *http.Request) bool { return r.Method == http.MethodGet },
		Resource:  func(r *http.Request) string { return "a" },
		OnOutcome: func(context.Context, string, guard.Token, error) {},
	})
	for _, c := range []struct {
		method, token, resource string
		status                  int
		body                    string
	}{
		{"GET", "", "", 200, `"" 0 false`},
		{"GET", "9", "a", 200, `"a" 9 true`},
		{"GET", "9", "", 400, ""},
		{"GET", "", "a", 428, ""}, // one of two was lost on the way
		{"GET", "+9", "a", 400, ""},
		{"GET", "9", "b", 400, ""},
		{"PUT", "", "", 428, ""},
	} {
		r := httptest.NewRequestWithContext(t.Context(), c.method, "/", nil)
		if c.token != "" {
			r.Header.Set(httpguard.TokenHeader, c.token)
		}
		if c.resource != "" {
			r.Header.Set(httpguard.ResourceHeader, c.resource)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.status || c.body != "" && w.Body.String() != c.body {
			t.Errorf("%+v: %d %s", c, w.Code, w.Body)
		}
	}
}

func TestAHandlerWithoutANextSaysSo(t *testing.T) {
	for _, next := range []http.Handler{nil, http.HandlerFunc(nil)} {
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "PUT", "/", nil)
		r.Header.Set(httpguard.TokenHeader, "9")
		r.Header.Set(httpguard.ResourceHeader, "a")
		httpguard.Handler(next, nil).ServeHTTP(w, r)
		if w.Code != 500 || !strings.Contains(w.Body.String(), "next is nil") {
			t.Errorf("%T: %d %s", next, w.Code, w.Body)
		}
	}
}

// Whatever comes over the network: what is admitted has one reading, and everything is answered.
func FuzzHandler(f *testing.F) {
	for _, s := range []string{"9", " 9", "+9", "9.0", "1e3", "5,9", "9223372036854775808", "-1", ""} {
		f.Add(s, "account/1", "")
		f.Add("9", s, s)
	}
	f.Add("9", "a%2Cb", "")
	h := httpguard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resource, tok, ok := guard.FromContext(r.Context())
		if !ok || guard.Check(resource, tok, 0) != nil || len(r.Header.Values(httpguard.TokenHeader)) != 1 || tok.String() != r.Header.Get(httpguard.TokenHeader) {
			w.WriteHeader(http.StatusTeapot)
		}
	}), nil)
	f.Fuzz(func(t *testing.T, token, resource, second string) {
		r := httptest.NewRequestWithContext(t.Context(), "PUT", "/", nil)
		r.Header[httpguard.TokenHeader] = []string{token}
		r.Header[httpguard.ResourceHeader] = []string{resource}
		if second != "" {
			r.Header.Add(httpguard.TokenHeader, second)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != 200 && w.Code != 400 || second != "" && w.Code == 200 {
			t.Errorf("%q %q %q: %d", token, resource, second, w.Code)
		}
	})
}
