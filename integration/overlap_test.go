package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

// A holder's network falls silent in both directions at a random moment. Its context must end before its successor has the
// lock, each time. Beside it, on the same connections, the same is measured for the session of etcd's client, which counts
// its lease from the arrival of replies.
//
// https://github.com/etcd-io/etcd/pull/5603, https://github.com/tikv/pd/pull/1676, https://github.com/hashicorp/consul/issues/18271
func TestHolderStopsBeforeItsSuccessorStarts(t *testing.T) {
	const runs = 100
	for _, c := range []struct {
		name       string
		ttl, delay time.Duration
	}{
		{"quick network", 2 * time.Second, 0},
		// A lease of 2 s lives on such a network, but on a busy machine not always long enough to get to the cut.
		{"replies take 0.7 s", 3 * time.Second, 700 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newOverlap(t, c.ttl, c.delay)
			var wg sync.WaitGroup
			for i := range runs {
				time.Sleep(20 * time.Millisecond) // connecting all at once would starve the server
				wg.Go(func() {
					if err := o.run(t.Context(), i); err != nil {
						t.Errorf("run %d: %v", i, err)
					}
				})
			}
			wg.Wait()
			slices.Sort(o.ours)
			slices.Sort(o.etcds)
			if len(o.ours) == runs {
				t.Logf("from the end of the holder's context to the successor's hold: min %v, median %v, max %v",
					o.ours[0], o.ours[runs/2], o.ours[runs-1])
				t.Logf("the same for etcd's concurrency package: min %v, median %v, max %v; too late in %d of %d",
					o.etcds[0], o.etcds[runs/2], o.etcds[runs-1], late(o.etcds), runs)
			}
			if n := late(o.ours); n > 0 || len(o.ours) < runs {
				t.Errorf("%d of %d runs: the holder still trusted its lock when its successor had it", n, len(o.ours))
			}
		})
	}
}

// overlap is one server and the session that all successors share.
type overlap struct {
	cluster    *etcdtest.Cluster
	next       *session.Session
	nextOld    *concurrency.Session
	ttl, delay time.Duration
	again      chan struct{} // lets a few runs at a time be repeated

	clients sync.Mutex // guards the making of clients, which tests do one at a time
	t       *testing.T

	mu          sync.Mutex
	ours, etcds []time.Duration // from the holder's end to its successor's beginning; guarded by mu
}

func newOverlap(t *testing.T, ttl, delay time.Duration) *overlap {
	o := &overlap{t: t, cluster: etcdtest.Start(t, nil), ttl: ttl, delay: delay, again: make(chan struct{}, 10)}
	direct := o.cluster.Client(t)
	var err error
	if o.next, err = session.New(t.Context(), direct, &session.Options{TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.next.Close() })
	if o.nextOld, err = concurrency.NewSession(direct); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.nextOld.Close() })
	return o
}

// connect returns a proxy and a client of its own behind it.
func (o *overlap) connect() (*etcdtest.Proxy, *clientv3.Client) {
	o.clients.Lock()
	defer o.clients.Unlock()
	p := etcdtest.StartProxy(o.t, o.cluster.Endpoints()[0])
	p.Delay(etcdtest.Replies, o.delay)
	return p, o.cluster.Client(o.t, etcdtest.Via(p))
}

// errEarly is why a run shows nothing: on a busy machine a short lease may end before the network is cut.
var errEarly = errors.New("lost before the network was cut")

func (o *overlap) run(ctx context.Context, i int) error {
	err := o.try(ctx, fmt.Sprint(i))
	for try := 1; errors.Is(err, errEarly) && try < 10; try++ {
		o.again <- struct{}{}
		err = o.try(ctx, fmt.Sprint(i, " again ", try))
		<-o.again
	}
	return err
}

func (o *overlap) try(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	proxy, client := o.connect()
	defer client.Close()
	s, err := session.New(ctx, client, &session.Options{TTL: o.ttl})
	if err != nil {
		return fmt.Errorf("%w: %w", errEarly, err)
	}
	defer s.Close() // an error: there is no network any more
	h, err := lock.NewMutex(s, name).Lock(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", errEarly, err)
	}
	old, err := concurrency.NewSession(client, concurrency.WithTTL(int(o.ttl/time.Second)))
	if err != nil {
		return fmt.Errorf("%w: %w", errEarly, err)
	}
	defer old.Orphan()
	if err := concurrency.NewMutex(old, "/old/"+name).Lock(ctx); err != nil {
		return fmt.Errorf("%w: %w", errEarly, err)
	}

	var wg sync.WaitGroup
	var ended, began, oldEnded, oldBegan time.Time
	var lockErr, oldErr error
	wg.Go(func() {
		var next *lock.Held
		if next, lockErr = lock.NewMutex(o.next, name).Lock(ctx); lockErr == nil {
			began = time.Now()
			lockErr = next.Unlock()
		}
	})
	wg.Go(func() {
		m := concurrency.NewMutex(o.nextOld, "/old/"+name)
		if oldErr = m.Lock(ctx); oldErr == nil {
			oldBegan = time.Now()
			oldErr = m.Unlock(ctx)
		}
	})
	wg.Go(func() {
		<-h.Context().Done()
		ended = time.Now()
	})
	wg.Go(func() {
		<-old.Done()
		oldEnded = time.Now()
	})
	time.Sleep(rand.N(o.ttl))
	early := h.Err()
	proxy.BlackHole(etcdtest.Both)
	wg.Wait()
	if early != nil {
		return fmt.Errorf("%w: %w", errEarly, early)
	}
	if err := errors.Join(lockErr, oldErr); err != nil {
		return err
	}
	if cause := context.Cause(h.Context()); !errors.Is(cause, session.ErrExpired) {
		return fmt.Errorf("the holder's context ended because of %w", cause)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ours = append(o.ours, began.Sub(ended))
	o.etcds = append(o.etcds, oldBegan.Sub(oldEnded))
	return nil
}

// late counts the runs in which the holder ended after its successor began.
func late(distances []time.Duration) (n int) {
	for _, d := range distances {
		if d <= 0 {
			n++
		}
	}
	return n
}
