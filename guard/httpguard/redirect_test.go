package httpguard_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/httpguard"
)

// nowhere returns the URL of a port on which nobody listens.
func nowhere(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return "http://" + l.Addr().String() + "/"
}

// A POST is applied, and its answer leads to a page that fails: http.Client returns the error of the page. After 307 and 308
// it is the write itself that fails there. https://www.rfc-editor.org/rfc/rfc9110#section-15.4
func TestAFailureBehindARedirectIsNotThatOfTheWriteBeforeIt(t *testing.T) {
	dead := nowhere(t)
	onEach(t, func(t *testing.T, proto string) {
		s := newStore(t)
		why := errors.New("the lock was lost")
		var end context.CancelCauseFunc
		mux := http.NewServeMux()
		mux.HandleFunc("POST /{status}/{to}", func(w http.ResponseWriter, r *http.Request) {
			status := 0
			if _, err := fmt.Sscan(r.PathValue("status"), &status); err != nil {
				t.Error(err)
			}
			if status < 307 {
				value, _ := io.ReadAll(r.Body)
				if err := s.exec(r.Context(), upsert, "a", value); err != nil {
					t.Error(err)
				}
			}
			to := "/" + r.PathValue("to")
			if to == "/dead" {
				to = dead
			}
			http.Redirect(w, r, to, status)
		})
		mux.HandleFunc("/stale", func(w http.ResponseWriter, r *http.Request) {
			httpguard.WriteError(w, &guard.StaleError{Resource: "a", Token: 7, Highest: 9})
		})
		mux.HandleFunc("/none", func(w http.ResponseWriter, r *http.Request) { httpguard.WriteError(w, guard.ErrNoToken) })
		mux.HandleFunc("/further", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/stale", http.StatusTemporaryRedirect)
		})
		url, base := serve(t, proto, httpguard.Handler(mux, nil))
		var outcome error
		client := &http.Client{
			Transport: &httpguard.Transport{Base: base, OnOutcome: func(_ context.Context, _ string, _ guard.Token, err error) { outcome = err }},
			CheckRedirect: func(req *http.Request, _ []*http.Request) error {
				if strings.HasSuffix(req.URL.Path, "/ended") {
					end(why)
				}
				return nil
			},
		}
		for _, status := range []int{301, 302, 303, 307, 308} {
			for to, is := range map[string]error{"stale": guard.ErrStale, "further": guard.ErrStale, "none": guard.ErrNoToken, "dead": syscall.ECONNREFUSED, "ended": why} {
				ctx, cancel := context.WithCancelCause(guard.NewContext(t.Context(), "a", 7))
				end = cancel
				value := fmt.Sprint(status, to)
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("%s/%d/%s", url, status, to), strings.NewReader(value))
				if err != nil {
					t.Fatal(err)
				}
				resp, err := client.Do(req)
				cancel(nil)
				if err == nil {
					t.Fatalf("%d to %s: %s", status, to, text(t, resp))
				}
				if got := s.read(t, "a") == value; got != (status < 307) {
					t.Errorf("%d to %s: written %t", status, to, got)
				}
				if status < 307 {
					unknown(t, value, err)
					if says := strings.Contains(err.Error(), is.Error()); !says || !errors.Is(outcome, guard.ErrUnknown) {
						t.Errorf("%d to %s: %v, outcome %v; want the reason, too", status, to, err, outcome)
					}
				}
				if keeps := is == syscall.ECONNREFUSED || is == why; (status >= 307 || keeps) && !errors.Is(err, is) {
					t.Errorf("%d to %s: %v; want %v", status, to, err, is)
				}
				if status >= 307 && errors.Is(err, guard.ErrUnknown) {
					t.Errorf("%d to %s: %v; nothing was written", status, to, err)
				}
			}
		}
	})
}
