package httpguard_test

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/httpguard"
	"github.com/fencedlock/fencedlock/guard/sqlguard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// protocols are what a test runs on: net/http has an implementation of its own for each.
var protocols = []string{"HTTP/1.1", "HTTP/2.0"}

func onEach(t *testing.T, run func(t *testing.T, proto string)) {
	for _, proto := range protocols {
		t.Run(proto, func(t *testing.T) { run(t, proto) })
	}
}

// serve starts a real server, and returns its URL and a round tripper that speaks proto with it.
func serve(t testing.TB, proto string, h http.Handler) (url string, base *http.Transport) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = proto == "HTTP/2.0"
	if s.EnableHTTP2 {
		s.StartTLS()
	} else {
		s.Start()
	}
	base = s.Client().Transport.(*http.Transport)
	t.Cleanup(func() {
		base.CloseIdleConnections()
		s.Close()
	})
	return s.URL, base
}

// put sends one request with what ctx carries.
func put(ctx context.Context, rt http.RoundTripper, url, value string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, strings.NewReader(value))
	if err != nil {
		return nil, err
	}
	return (&http.Client{Transport: rt}).Do(req)
}

// text reads a response to its end.
func text(t testing.TB, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	return string(b)
}

// store is a table with a value for each resource, in a file.
type store struct {
	db *sql.DB
	g  *sqlguard.Guard
}

func openStore(t testing.TB, file string) *store {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(off)")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1) // writers queue up in the pool, which is faster than in SQLite
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.Exec("CREATE TABLE IF NOT EXISTS kv (resource TEXT PRIMARY KEY, value TEXT NOT NULL)"); err != nil {
		t.Fatal(err)
	}
	g, err := sqlguard.New(db, sqlguard.SQLite, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &store{db, g}
}

func newStore(t testing.TB) *store {
	t.Helper()
	return openStore(t, filepath.Join(t.TempDir(), "test.db"))
}

const upsert = "INSERT INTO kv VALUES (?, ?) ON CONFLICT (resource) DO UPDATE SET value = excluded.value"

func (s *store) exec(ctx context.Context, query string, args ...any) error {
	resource, tok, ok := guard.FromContext(ctx)
	if !ok {
		return errors.New("no token in the context")
	}
	return s.g.Do(ctx, resource, tok, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, query, args...)
		return err
	})
}

// handler writes the resource that the token is for; a request for GET reads the one in the query.
func (s *store) handler(t testing.TB) http.Handler {
	answer := func(w http.ResponseWriter, err error) {
		switch {
		case err == nil:
			w.WriteHeader(http.StatusNoContent)
		case !httpguard.WriteError(w, err):
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /", func(w http.ResponseWriter, r *http.Request) {
		value, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		resource, _, _ := guard.FromContext(r.Context())
		answer(w, s.exec(r.Context(), upsert, resource, value))
	})
	mux.HandleFunc("DELETE /", func(w http.ResponseWriter, r *http.Request) {
		resource, _, _ := guard.FromContext(r.Context())
		answer(w, s.exec(r.Context(), "DELETE FROM kv WHERE resource = ?", resource))
	})
	mux.HandleFunc("POST /seal", func(w http.ResponseWriter, r *http.Request) {
		resource, tok, _ := guard.FromContext(r.Context())
		answer(w, s.g.Seal(r.Context(), resource, tok))
	})
	mux.HandleFunc("GET /highest", func(w http.ResponseWriter, r *http.Request) {
		tok, err := s.g.Highest(r.Context(), r.URL.Query().Get("resource"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, tok.String())
	})
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, s.read(t, r.URL.Query().Get("resource")))
	})
	return httpguard.Handler(mux, &httpguard.Options{
		Optional: func(r *http.Request) bool { return r.Method == http.MethodGet },
	})
}

func (s *store) read(t testing.TB, resource string) (value string) {
	t.Helper()
	err := s.db.QueryRowContext(context.Background(), "SELECT value FROM kv WHERE resource = ?", resource).Scan(&value)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		t.Error(err)
	}
	return value
}
