package guard_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/fencedlock/fencedlock/guard"
)

// A zero or missing token that passes for "no fencing" lets everybody in:
// https://github.com/awslabs/amazon-dynamodb-lock-client/issues/1, https://github.com/bsm/redislock/pull/94
func TestGateNeverTakesAMissingTokenForPermission(t *testing.T) {
	var g guard.Gate
	for _, tok := range []guard.Token{0, -1} {
		err := g.Do("r", tok, func() error { t.Errorf("token %d wrote", tok); return nil })
		if !errors.Is(err, guard.ErrNoToken) {
			t.Errorf("Do with %d: %v; want ErrNoToken", tok, err)
		}
		if err := g.Seal(context.Background(), "r", tok); !errors.Is(err, guard.ErrNoToken) {
			t.Errorf("Seal with %d: %v; want ErrNoToken", tok, err)
		}
	}
	if got, err := g.Highest(context.Background(), "r"); got != 0 || err != nil {
		t.Errorf("Highest = %d, %v; want 0", got, err)
	}
}

func TestGateLetsNoOlderWriteInAfterANewerOne(t *testing.T) {
	var g guard.Gate
	var wg sync.WaitGroup
	var history []guard.Token // written under the gate alone: the race detector watches
	for w := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(w)))
			for range 200 {
				tok := guard.Token(1 + r.IntN(400))
				err := g.Do("r", tok, func() error { history = append(history, tok); return nil })
				if err != nil && !errors.Is(err, guard.ErrStale) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for i := 1; i < len(history); i++ {
		if history[i] < history[i-1] {
			t.Fatalf("write %d has token %d after %d", i, history[i], history[i-1])
		}
	}
	if high, err := g.Highest(context.Background(), "r"); err != nil || high != history[len(history)-1] {
		t.Errorf("Highest = %d, %v; the last write had %d", high, err, history[len(history)-1])
	}
}

func TestGateKeepsTheMarkWhenTheWriteFails(t *testing.T) {
	var g guard.Gate
	boom := errors.New("boom")
	if err := g.Do("r", 5, func() error { return boom }); err != boom {
		t.Errorf("Do returned %v; want the write's own error", err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = g.Do("r", 6, func() error { panic("boom") })
	}()
	var stale *guard.StaleError
	if err := g.Do("r", 5, func() error { return nil }); !errors.As(err, &stale) || stale.Highest != 6 {
		t.Errorf("after the panic: %v; want stale by 6", err)
	}
	if err := g.Do("other", 1, func() error { return nil }); err != nil {
		t.Errorf("another resource: %v", err)
	}
}

func TestGateSealWaitsForTheWriteAndItsContext(t *testing.T) {
	var g guard.Gate
	inside, leave := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = g.Do("r", 5, func() error { close(inside); <-leave; return nil })
	})
	<-inside
	ctx, cancel := context.WithCancel(context.Background())
	sealed := make(chan error, 1)
	wg.Go(func() { sealed <- g.Seal(ctx, "r", 6) })
	if got, err := g.Highest(context.Background(), "r"); got != 5 || err != nil {
		t.Errorf("Highest while 5 writes = %d, %v", got, err)
	}
	cancel()
	if err := <-sealed; !errors.Is(err, context.Canceled) {
		t.Errorf("Seal = %v; want its context's error", err)
	}
	if got, _ := g.Highest(context.Background(), "r"); got != 5 {
		t.Errorf("a Seal that gave up left the mark at %d; want 5", got)
	}
	wg.Go(func() { sealed <- g.Seal(context.Background(), "r", 6) })
	close(leave)
	if err := <-sealed; err != nil {
		t.Error(err)
	}
	wg.Wait()
	if err := g.Do("r", 5, func() error { return nil }); !errors.Is(err, guard.ErrStale) {
		t.Errorf("after Seal(6), 5 got %v; want ErrStale", err)
	}
}
