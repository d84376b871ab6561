//go:build unix

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fencedlock/fencedlock/examples/internal/story"
	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/httpguard"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

const (
	ttl   = 2 * time.Second // of the lease, the shortest that etcd grants
	limit = 5 * time.Second // of a request; in its context and not in http.Client.Timeout, see [httpguard.Transport]
)

// work adds an amount to the balance of account 1 through the bank at a URL, under the lock "account/1".
func work(ctx context.Context, j job, say story.Tell) error {
	etcd, err := clientv3.New(clientv3.Config{Endpoints: j.Etcd, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		return fmt.Errorf("etcd client: %w", err)
	}
	defer etcd.Close()
	s, err := session.New(ctx, etcd, &session.Options{TTL: ttl, Owner: "client " + j.Client})
	if err != nil {
		return err
	}
	defer s.Close()

	// The transport takes the token from each request's context. Without connections that are kept, none can break while
	// nobody looks; a write on a broken one would be guard.ErrUnknown, and we would have to look what became of it.
	bank := &http.Client{Transport: &httpguard.Transport{Base: &http.Transport{DisableKeepAlives: true}}}

	h, err := lock.NewMutex(s, "account/1").Lock(ctx)
	if err != nil {
		return err
	}
	defer h.Unlock() // for the ways out below; a further call is harmless
	say("holds", "has the lock %q with token %d", h.Resource(), int64(h.Token()))

	method, path := http.MethodPost, "/accounts/1/open"
	if !j.Guarded {
		method, path = http.MethodGet, "/accounts/1"
	}
	reading, cancel := context.WithTimeout(h.Context(), limit)
	defer cancel()
	answer, err := request(reading, bank, method, j.URL+path, "")
	if err != nil {
		return err
	}
	balance, err := strconv.Atoi(answer)
	if err != nil {
		return fmt.Errorf("the bank answered with no balance: %w", err)
	}
	balance += j.Amount
	if err := h.Err(); err != nil { // the last look before the write
		return err
	}
	say("ready", "reads the balance, adds %+d, and is about to PUT %d", j.Amount, balance)

	// Between the last look and the write anything can happen. Here the process waits to be told to go on, and is
	// stopped meanwhile.
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return fmt.Errorf("nobody said to go on: %w", err)
	}

	// A program of yours writes with h.Context(), which has the token, and the request then may not even be sent. Here that
	// would hide what the story is about: a request that was under way when the lock was lost.
	writing, cancel := context.WithTimeout(guard.NewContext(ctx, h.Resource(), h.Token()), limit)
	defer cancel()
	path = "/accounts/1"
	if !j.Guarded {
		path = "/unguarded/accounts/1"
	}
	_, err = request(writing, bank, http.MethodPut, j.URL+path, strconv.Itoa(balance))
	var stale *guard.StaleError
	switch {
	case errors.As(err, &stale):
		say("refused", "PUTs %d and is REFUSED, since the bank has seen token %d:\n%v", balance, int64(stale.Highest), err)
	case err != nil:
		return err
	default:
		say("written", "PUTs %d, and the bank takes it", balance)
	}

	if err := h.Err(); err != nil {
		say("lost", "looks at its lock again and finds it lost:\n%v", err)
		return nil
	}
	if err := h.Unlock(); err != nil {
		return err
	}
	say("released", "gives the lock back")
	return nil
}

// request returns the answer's body. If ctx carries a token, an error that is not [guard.ErrUnknown] means that nothing was
// written.
func request(ctx context.Context, client *http.Client, method, url, body string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1000))
	switch {
	case resp.StatusCode >= 500 || err != nil: // the bank's own, or of something between: it may have been written
		return "", fmt.Errorf("%w: %s %s: %s (%v)", guard.ErrUnknown, method, url, resp.Status, err)
	case resp.StatusCode/100 != 2:
		return "", fmt.Errorf("%s %s: %s: %s", method, url, resp.Status, answer)
	}
	return string(answer), nil
}
