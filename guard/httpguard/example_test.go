package httpguard_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/httpguard"
)

// The holder with token 7 is paused; its successor with token 9 sets the price first. The late request is refused by the
// guard behind the server, here a Gate since the price lives in the server's memory, and arrives as a StaleError.
func Example() {
	var gate guard.Gate
	var price string
	put := func(w http.ResponseWriter, r *http.Request) {
		resource, tok, _ := guard.FromContext(r.Context())
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = gate.Do(resource, tok, func() error { price = string(body); return nil })
		}
		switch {
		case err == nil:
			w.WriteHeader(http.StatusNoContent)
		case !httpguard.WriteError(w, err):
			http.Error(w, "not stored", http.StatusInternalServerError)
		}
	}
	mux := http.NewServeMux()
	mux.Handle("PUT /prices/{id}", httpguard.Handler(http.HandlerFunc(put), &httpguard.Options{
		Resource: func(r *http.Request) string { return "price/" + r.PathValue("id") },
	}))
	server := httptest.NewServer(mux)
	defer server.Close()

	base := &http.Transport{}
	defer base.CloseIdleConnections()
	client := &http.Client{Transport: &httpguard.Transport{Base: base}}
	set := func(ctx context.Context, value string) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, server.URL+"/prices/apple", strings.NewReader(value))
		if err != nil {
			log.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusNoContent {
			return errors.New(resp.Status)
		}
		return nil
	}

	// In a program these are the contexts of held locks.
	first := guard.NewContext(context.Background(), "price/apple", 7)
	successor := guard.NewContext(context.Background(), "price/apple", 9)
	fmt.Println(set(successor, "120"))
	err := set(first, "90")
	var stale *guard.StaleError
	fmt.Println(errors.As(err, &stale), stale.Highest, price)
	fmt.Println(errors.Is(set(context.Background(), "80"), guard.ErrNoToken), price)
	// Output:
	// <nil>
	// true 9 120
	// true 120
}
