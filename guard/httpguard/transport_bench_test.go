package httpguard_test

import (
	"context"
	"database/sql"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/httpguard"
	"github.com/fencedlock/fencedlock/guard/sqlguard"
)

// BenchmarkPut sends requests with a token through Transport and Handler, and the same without, in turn to one server. Once
// the handler does nothing, so that the carrying is all; once it writes to an SQLite file that syncs, with sqlguard and without.
// guarded/plain is the ratio of the medians' rates: 1 is for free.
func BenchmarkPut(b *testing.B) {
	b.Run("handler=nothing", func(b *testing.B) {
		nothing := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) })
		benchmarkPut(b, nothing, nothing)
	})
	b.Run("handler=SQLite", func(b *testing.B) {
		db, err := sql.Open("sqlite", "file:"+filepath.Join(b.TempDir(), "bench.db")+"?_txlock=immediate&_pragma=journal_mode(wal)&_pragma=synchronous(full)")
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = db.Close() })
		db.SetMaxOpenConns(1)
		g, err := sqlguard.New(db, sqlguard.SQLite, nil)
		if err == nil {
			err = g.Migrate(b.Context())
		}
		if err == nil {
			_, err = db.Exec("CREATE TABLE account (balance INTEGER); INSERT INTO account VALUES (0)")
		}
		if err != nil {
			b.Fatal(err)
		}
		const update = "UPDATE account SET balance = balance + 1"
		answer := func(w http.ResponseWriter, err error) {
			if err != nil {
				b.Error(err)
			}
			w.WriteHeader(http.StatusNoContent)
		}
		benchmarkPut(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := db.ExecContext(r.Context(), update)
			answer(w, err)
		}), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			resource, tok, _ := guard.FromContext(r.Context())
			answer(w, g.Do(r.Context(), resource, tok, func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, update)
				return err
			}))
		}))
	})
}

func benchmarkPut(b *testing.B, plain, guarded http.Handler) {
	mux := http.NewServeMux()
	mux.Handle("PUT /plain", plain)
	mux.Handle("PUT /guarded", httpguard.Handler(guarded, &httpguard.Options{Resource: func(*http.Request) string { return "account/1" }}))
	url, base := serve(b, "HTTP/1.1", mux)
	send := func(ctx context.Context, rt http.RoundTripper, path string) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, url+path, strings.NewReader("value"))
		if err != nil {
			return err
		}
		resp, err := (&http.Client{Transport: rt}).Do(req)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return err
	}
	tok := guard.Token(0)
	one, other := inTurn(b, func() error { return send(b.Context(), base, "/plain") }, func() error {
		tok++ // the costlier case, a new holder each time
		return send(guard.NewContext(b.Context(), "account/1", tok), &httpguard.Transport{Base: base}, "/guarded")
	})
	b.ReportMetric(float64(one)/float64(other), "guarded/plain")
	b.ReportMetric(float64(other.Microseconds()), "guarded-µs")
	b.ReportMetric(float64(one.Microseconds()), "plain-µs")
}

// inTurn runs both in turn, and returns the medians of their times.
func inTurn(b *testing.B, one, other func() error) (time.Duration, time.Duration) {
	timed := func(op func() error) time.Duration {
		start := time.Now()
		if err := op(); err != nil {
			b.Fatal(err)
		}
		return time.Since(start)
	}
	for range 20 { // the connection is there, caches are warm
		timed(one)
		timed(other)
	}
	var a, c []time.Duration
	for b.Loop() {
		a = append(a, timed(one))
		c = append(c, timed(other))
	}
	slices.Sort(a)
	slices.Sort(c)
	return a[len(a)/2], c[len(c)/2]
}
