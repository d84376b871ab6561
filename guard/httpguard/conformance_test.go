package httpguard_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/guardtest"
	"github.com/fencedlock/fencedlock/guard/httpguard"
)

// faultHeader makes the server lose a request before it is handled, or its answer after it was.
const faultHeader = "Test-Fault"

func losing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get(faultHeader) {
		case "request":
			panic(http.ErrAbortHandler) // the connection or the stream breaks
		case "reply":
			next.ServeHTTP(discarding{make(http.Header)}, r)
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, r)
	})
}

type discarding struct{ h http.Header }

func (d discarding) Header() http.Header         { return d.h }
func (d discarding) Write(b []byte) (int, error) { return len(b), nil }
func (d discarding) WriteHeader(int)             {}

// remote is the suite's view of a store behind HTTP.
type remote struct {
	client atomic.Pointer[http.Client]
	url    atomic.Pointer[string]
}

func (c *remote) call(ctx context.Context, method, path, value, fault string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, *c.url.Load()+path, strings.NewReader(value))
	if err != nil {
		return "", err
	}
	if fault != "" {
		req.Header.Set(faultHeader, fault)
	}
	resp, err := c.client.Load().Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return string(body), err
}

func (c *remote) Seal(ctx context.Context, resource string, tok guard.Token) error {
	_, err := c.call(guard.NewContext(ctx, resource, tok), http.MethodPost, "/seal", "", "")
	return err
}

func (c *remote) Highest(ctx context.Context, resource string) (guard.Token, error) {
	if err := guard.CheckResource(resource); err != nil {
		return 0, err
	}
	s, err := c.call(ctx, http.MethodGet, "/highest?resource="+url.QueryEscape(resource), "", "")
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return guard.Token(n), err
}

func TestAGuardBehindHTTPPassesTheSuite(t *testing.T) {
	onEach(t, func(t *testing.T, proto string) {
		guardtest.Run(t, func(t *testing.T) guardtest.Store {
			file := filepath.Join(t.TempDir(), "test.db")
			c := &remote{}
			start := func() (stop func()) {
				s := openStore(t, file)
				url, base := serve(t, proto, losing(s.handler(t)))
				c.url.Store(&url)
				c.client.Store(&http.Client{Transport: &httpguard.Transport{Base: base}})
				return func() { base.CloseIdleConnections(); _ = s.db.Close() }
			}
			stop := start()
			write := func(fault string) func(context.Context, string, guard.Token, string) error {
				return func(ctx context.Context, resource string, tok guard.Token, value string) error {
					_, err := c.call(guard.NewContext(ctx, resource, tok), http.MethodPut, "/", value, fault)
					return err
				}
			}
			return guardtest.Store{
				Sealer: c,
				Write:  write(""),
				Read: func(ctx context.Context, resource string) (string, error) {
					return c.call(ctx, http.MethodGet, "/?resource="+url.QueryEscape(resource), "", "")
				},
				Delete: func(ctx context.Context, resource string, tok guard.Token) error {
					_, err := c.call(guard.NewContext(ctx, resource, tok), http.MethodDelete, "/", "", "")
					return err
				},
				Restart: func(context.Context) error {
					stop()
					stop = start()
					return nil
				},
				LoseReply:   write("reply"),
				LoseRequest: write("request"),
			}
		})
	})
}
