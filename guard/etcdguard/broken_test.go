package etcdguard_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/etcdguard"
	"github.com/fencedlock/fencedlock/integration/etcdtest"
)

// Connections break all the time, in the middle of whatever is under way. Each outcome must be true at the end, and no write
// be done twice.
func TestOutcomesAreTrueThoughConnectionsBreak(t *testing.T) {
	p := prefix(t)
	proxy := etcdtest.StartProxy(t, cluster.Endpoints()[0])
	const holders, writes = 3, 25
	outcomes := make(map[string]error)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for h := range holders {
		client := cluster.Client(t, etcdtest.Via(proxy))
		g := newGuardWith(t, client, etcdguard.Options{Prefix: p + "marks/"})
		wg.Go(func() {
			for i := range writes {
				key := fmt.Sprintf("%sdata/%d-%d", p, h, i)
				ctx, cancel := context.WithTimeout(t.Context(), patient)
				err := g.Do(ctx, "r", 5, clientv3.OpPut(key, "x"))
				cancel()
				mu.Lock()
				outcomes[key] = err
				mu.Unlock()
			}
		})
	}
	done := make(chan struct{})
	var cutting sync.WaitGroup
	cuts := 0
	cutting.Go(func() {
		for tick := time.NewTicker(7 * time.Millisecond); ; cuts++ {
			select {
			case <-done:
				tick.Stop()
				return
			case <-tick.C:
				proxy.Cut()
			}
		}
	})
	wg.Wait()
	close(done)
	cutting.Wait()

	if err := newGuard(t, direct, p).Seal(t.Context(), "r", 5); err != nil { // what is found now is final
		t.Fatal(err)
	}
	counts := make(map[string]int)
	for key, err := range outcomes {
		there := get(t, key).version
		switch {
		case errors.Is(err, guard.ErrStale):
			t.Errorf("%s: %v; nobody has a higher token", key, err)
		case errors.Is(err, guard.ErrUnknown):
			counts["unknown"]++
			if there > 1 {
				t.Errorf("%s was put %d times", key, there)
			}
		case err == nil && there != 1, err != nil && there != 0:
			t.Errorf("%s: Do = %v, and it was put %d times", key, err, there)
		case err == nil:
			counts["applied"]++
		default:
			counts["refused"]++
		}
	}
	t.Logf("%d cuts: %v", cuts, counts)
	if counts["applied"] == 0 {
		t.Error("nothing was applied")
	}
}
