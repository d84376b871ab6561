//go:build unix

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/httpguard"
	"github.com/fencedlock/fencedlock/guard/sqlguard"
)

// bank serves accounts. It knows no locks and no etcd: what it needs to know of them comes with each request.
type bank struct {
	db *sql.DB
	g  *sqlguard.Guard
}

// serve runs a bank on a database file until the listener fails or the process ends.
func serve(ctx context.Context, file string, l net.Listener) error {
	b, err := openBank(ctx, file)
	if err != nil {
		return err
	}
	defer b.db.Close()
	return (&http.Server{Handler: b.routes(), ReadHeaderTimeout: 5 * time.Second}).Serve(l)
}

// openBank makes what is not there yet: the table of accounts, with one account, and the guard's table of marks.
func openBank(ctx context.Context, file string) (*bank, error) {
	db, err := sql.Open("sqlite", file+"?_txlock=immediate&_pragma=busy_timeout(5000)") // see [sqlguard.SQLite]
	if err != nil {
		return nil, fmt.Errorf("opening the bank: %w", err)
	}
	g, err := sqlguard.New(db, sqlguard.SQLite, nil)
	if err == nil {
		err = g.Migrate(ctx)
	}
	if err == nil {
		_, err = db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS account (id TEXT PRIMARY KEY, balance INTEGER NOT NULL);
			INSERT INTO account VALUES ('1', ?) ON CONFLICT DO NOTHING`, opening)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the bank: %w", err), db.Close())
	}
	return &bank{db, g}, nil
}

func (b *bank) routes() http.Handler {
	// Which resource a request writes is the server's to say, by the path: a client with another account's lock is refused.
	guarded := func(h http.HandlerFunc) http.Handler {
		return httpguard.Handler(h, &httpguard.Options{Resource: func(r *http.Request) string { return "account/" + r.PathValue("id") }})
	}
	mux := http.NewServeMux()
	mux.Handle("POST /accounts/{id}/open", guarded(b.open))
	mux.Handle("PUT /accounts/{id}", guarded(b.put))
	mux.HandleFunc("GET /accounts/{id}", b.get)
	mux.HandleFunc("PUT /unguarded/accounts/{id}", b.putUnguarded)
	return mux
}

// open seals the account for the holder who asks and answers with the balance. Seal, then read: after Seal no older holder
// can write, so what is read stays true.
func (b *bank) open(w http.ResponseWriter, r *http.Request) {
	resource, tok, _ := guard.FromContext(r.Context())
	if err := b.g.Seal(r.Context(), resource, tok); err != nil {
		refuse(w, err)
		return
	}
	b.get(w, r)
}

// put sets the balance, in a transaction that only a token that is not too low gets through.
func (b *bank) put(w http.ResponseWriter, r *http.Request) {
	balance, ok := balanceOf(w, r)
	if !ok {
		return
	}
	resource, tok, _ := guard.FromContext(r.Context())
	err := b.g.Do(r.Context(), resource, tok, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE account SET balance = ? WHERE id = ?", balance, r.PathValue("id"))
		return err
	})
	if err != nil {
		refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// putUnguarded is how one writes it without a guard.
func (b *bank) putUnguarded(w http.ResponseWriter, r *http.Request) {
	balance, ok := balanceOf(w, r)
	if !ok {
		return
	}
	if _, err := b.db.ExecContext(r.Context(), "UPDATE account SET balance = ? WHERE id = ?", balance, r.PathValue("id")); err != nil {
		refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (b *bank) get(w http.ResponseWriter, r *http.Request) {
	var balance int
	err := b.db.QueryRowContext(r.Context(), "SELECT balance FROM account WHERE id = ?", r.PathValue("id")).Scan(&balance)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		http.Error(w, "no such account", http.StatusNotFound)
	case err != nil:
		refuse(w, err)
	default:
		fmt.Fprint(w, balance)
	}
}

// refuse answers with what a guard said, or else with as little as possible.
func refuse(w http.ResponseWriter, err error) {
	if !httpguard.WriteError(w, err) {
		http.Error(w, "not done", http.StatusInternalServerError)
	}
}

// balanceOf reads a request's body, and has answered if it is none.
func balanceOf(w http.ResponseWriter, r *http.Request) (balance int, ok bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 100))
	if err == nil {
		balance, err = strconv.Atoi(string(body))
	}
	if err != nil {
		http.Error(w, "the body has to be a balance", http.StatusBadRequest)
	}
	return balance, err == nil
}
