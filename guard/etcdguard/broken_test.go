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

// Connections break again and again, in the middle of whatever is under way.
func TestOutcomesAreTrueThoughConnectionsBreak(t *testing.T) {
	proxy := etcdtest.StartProxy(t, cluster.Endpoints()[0])
	clients := []*clientv3.Client{cluster.Client(t, etcdtest.Via(proxy)), cluster.Client(t, etcdtest.Via(proxy))}
	outcomesAreTrue(t, direct, clients, func(done <-chan struct{}) {
		tick := time.NewTicker(7 * time.Millisecond)
		defer tick.Stop()
		for range 100 {
			select {
			case <-done:
				return
			case <-tick.C:
				proxy.Cut()
			}
		}
	})
}

// The leader dies while writes are under way, and another one is elected.
func TestOutcomesAreTrueThoughTheLeaderDies(t *testing.T) {
	t.Parallel()
	own := etcdtest.Start(t, &etcdtest.Options{Members: 3})
	client := own.Client(t)
	outcomesAreTrue(t, client, []*clientv3.Client{client, own.Client(t)}, func(<-chan struct{}) {
		for wrote := false; !wrote; { // in the middle of it
			resp, err := client.Get(t.Context(), "/"+t.Name()+"/data/", clientv3.WithPrefix(), clientv3.WithCountOnly())
			wrote = err != nil || resp.Count > 10
		}
		if leader, err := own.WaitLeader(t.Context()); err != nil {
			t.Error(err)
		} else {
			own.Member(leader).Stop()
		}
	})
}

// outcomesAreTrue writes through each client and disturbs. Each outcome must be true at the end, and no write be done twice.
func outcomesAreTrue(t *testing.T, sure *clientv3.Client, clients []*clientv3.Client, disturb func(done <-chan struct{})) {
	p := "/" + t.Name() + "/"
	t.Cleanup(func() { _, _ = sure.Delete(context.Background(), p, clientv3.WithPrefix()) })
	const writes = 30
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	outcomes := make(map[string]error)
	var mu sync.Mutex
	var writers, disturber sync.WaitGroup
	for c, client := range clients {
		g := newGuardWith(t, client, etcdguard.Options{Prefix: p + "marks/"})
		writers.Go(func() {
			for i := range writes {
				key := fmt.Sprintf("%sdata/%d-%d", p, c, i)
				err := g.Do(ctx, "r", 5, clientv3.OpPut(key, "x"))
				mu.Lock()
				outcomes[key] = err
				mu.Unlock()
			}
		})
	}
	done := make(chan struct{})
	disturber.Go(func() { disturb(done) })
	writers.Wait()
	close(done)
	disturber.Wait()

	if err := newGuard(t, sure, p).Seal(ctx, "r", 5); err != nil { // what is found now is final
		t.Fatal(err)
	}
	resp, err := sure.Get(ctx, p+"data/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	puts := make(map[string]int64)
	for _, kv := range resp.Kvs {
		puts[string(kv.Key)] = kv.Version
	}
	counts := make(map[string]int)
	for key, err := range outcomes {
		n := puts[key]
		switch {
		case errors.Is(err, guard.ErrStale):
			t.Errorf("%s: %v; nobody has a higher token", key, err)
		case errors.Is(err, guard.ErrUnknown):
			counts["unknown"]++
			if n > 1 {
				t.Errorf("%s was put %d times", key, n)
			}
		case err == nil && n != 1, err != nil && n != 0:
			t.Errorf("%s: Do = %v, and it was put %d times", key, err, n)
		case err == nil:
			counts["applied"]++
		default:
			counts["refused"]++
		}
	}
	t.Log(counts)
	if counts["applied"] < len(outcomes)*9/10 {
		t.Errorf("%v: etcd could be asked again and again, so nearly all must be known to be applied", counts)
	}
}
