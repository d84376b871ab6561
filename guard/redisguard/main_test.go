//go:build unix

package redisguard_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/redisguard"
	"github.com/fencedlock/fencedlock/internal/child"
	"github.com/fencedlock/fencedlock/internal/redistest"
)

func TestMain(m *testing.M) {
	child.Main(map[string]child.Role{"holder": holder})
	flag.Parse()
	redis.SetLogger(quiet{}) // it tells of every connection that a test breaks
	// An example cannot skip itself.
	if err := redistest.Installed(); err != nil && os.Getenv("FENCEDLOCK_REQUIRE_SERVERS") != "1" {
		fmt.Println("examples are skipped:", err)
		if err := flag.Set("test.skip", "^Example"); err != nil {
			panic(err)
		}
	}
	// It looks each second whether the server is back, and ends after that when the client is closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func newGuard(t testing.TB, c redis.UniversalClient, o *redisguard.Options) *redisguard.Guard {
	t.Helper()
	g, err := redisguard.New(t.Context(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// start runs a server and returns a client of it and a guard.
func start(t testing.TB, settings ...string) (*redis.Client, *redisguard.Guard) {
	t.Helper()
	c := redistest.Start(t, settings...).Client(t)
	return c, newGuard(t, c, nil)
}

// holds checks the value and the mark of a resource; "" is no value.
func holds(t testing.TB, g *redisguard.Guard, resource, value string, mark guard.Token) {
	t.Helper()
	got, err := g.Get(t.Context(), resource)
	if (err == redis.Nil) != (value == "") || got != value || err != nil && err != redis.Nil {
		t.Errorf("Get(%q) = %q, %v; want %q", resource, got, err, value)
	}
	if high, err := g.Highest(t.Context(), resource); high != mark || err != nil {
		t.Errorf("Highest(%q) = %d, %v; want %d", resource, high, err, mark)
	}
}

func accepted(t testing.TB, what string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v; want nil", what, err)
	}
}

func unknown(t testing.TB, what string, err error) {
	t.Helper()
	if !errors.Is(err, guard.ErrUnknown) || errors.Is(err, guard.ErrStale) {
		t.Errorf("%s: %v; want ErrUnknown", what, err)
	}
}

func stale(t testing.TB, what string, err error, resource string, tok, highest guard.Token) {
	t.Helper()
	var s *guard.StaleError
	if !errors.As(err, &s) || *s != (guard.StaleError{Resource: resource, Token: tok, Highest: highest}) || errors.Is(err, guard.ErrUnknown) {
		t.Errorf("%s: %v; want %d refused by %d", what, err, tok, highest)
	}
}

// plant checks an error that is neither stale nor unknown, so that nothing was applied.
func plant(t testing.TB, what string, err error) {
	t.Helper()
	if err == nil || errors.Is(err, guard.ErrStale) || errors.Is(err, guard.ErrUnknown) {
		t.Errorf("%s: %v; want an error that says that nothing was applied", what, err)
	}
}
