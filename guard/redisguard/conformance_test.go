//go:build unix

package redisguard_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/guardtest"
	"github.com/fencedlock/fencedlock/guard/redisguard"
	"github.com/fencedlock/fencedlock/internal/redistest"
)

// store is the suite's view of a guard. lossy is another guard over the same data, through the proxies.
func store(g, lossy *redisguard.Guard, proxies []*redistest.Proxy) guardtest.Store {
	write := func(g *redisguard.Guard) func(context.Context, string, guard.Token, string) error {
		return func(ctx context.Context, resource string, tok guard.Token, value string) error {
			return g.Set(ctx, resource, tok, value, 0)
		}
	}
	losing := func(arm func(*redistest.Proxy)) func(context.Context, string, guard.Token, string) error {
		return func(ctx context.Context, resource string, tok guard.Token, value string) error {
			for _, p := range proxies {
				arm(p)
			}
			defer func() {
				for _, p := range proxies {
					p.FailAll(0)
				}
			}()
			return write(lossy)(ctx, resource, tok, value)
		}
	}
	return guardtest.Store{
		Sealer: g,
		Write:  write(g),
		Read: func(ctx context.Context, resource string) (string, error) {
			v, err := g.Get(ctx, resource)
			if errors.Is(err, redis.Nil) {
				err = nil
			}
			return v, err
		},
		Delete:      g.Del,
		LoseReply:   losing(func(p *redistest.Proxy) { p.Fail(redistest.LoseReply) }),
		LoseRequest: losing(func(p *redistest.Proxy) { p.FailAll(redistest.LoseRequest) }),
	}
}

var durable = []string{"--appendonly", "yes", "--appendfsync", "always"}

func flush(t *testing.T, c redis.UniversalClient) {
	t.Helper()
	if err := c.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
}

func TestServerPassesTheSuite(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, durable...)
	guardtest.Run(t, func(t *testing.T) guardtest.Store {
		c := s.Client(t)
		flush(t, c)
		p := redistest.NewProxy(t, s.Addr())
		through := redis.NewClient(&redis.Options{Addr: p.Addr})
		t.Cleanup(func() { _ = through.Close() })
		st := store(newGuard(t, c, nil), newGuard(t, through, nil), []*redistest.Proxy{p})
		st.Restart = func(context.Context) error {
			s.Restart(t)
			return nil
		}
		return st
	})
}

// The same with every write waiting for a replica.
func TestServerWithReplicaPassesTheSuite(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, durable...)
	s.StartReplica(t)
	o := &redisguard.Options{Replicas: 1, ReplicaTimeout: 30 * time.Second}
	guardtest.Run(t, func(t *testing.T) guardtest.Store {
		c := s.Client(t)
		flush(t, c)
		p := redistest.NewProxy(t, s.Addr())
		through := redis.NewClient(&redis.Options{Addr: p.Addr})
		t.Cleanup(func() { _ = through.Close() })
		st := store(newGuard(t, c, o), newGuard(t, through, o), []*redistest.Proxy{p})
		st.Without = map[guardtest.Capability]string{guardtest.Restart: "the suite of a server alone has it"}
		return st
	})
}

func TestClusterPassesTheSuite(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, durable...)
	guardtest.Run(t, func(t *testing.T) guardtest.Store {
		c := cluster.Client(t)
		for _, s := range cluster.Servers {
			flush(t, s.Client(t))
		}
		proxies := make(map[string]*redistest.Proxy)
		var all []*redistest.Proxy
		for _, s := range cluster.Servers {
			proxies[s.Addr()] = redistest.NewProxy(t, s.Addr())
			all = append(all, proxies[s.Addr()])
		}
		st := store(newGuard(t, c, nil), newGuard(t, cluster.Client(t, redistest.Through(proxies)), nil), all)
		st.Restart = func(context.Context) error {
			for _, s := range cluster.Servers {
				s.Restart(t)
			}
			return nil
		}
		return st
	})
}
