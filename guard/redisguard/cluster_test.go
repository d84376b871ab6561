//go:build unix

package redisguard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/fencedlock/guard/redisguard"
	"github.com/fencedlock/fencedlock/internal/redistest"
)

// One cluster for all of this, since it takes seconds to find together.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, durable...)
	t.Run("keys", func(t *testing.T) { testClusterKeys(t, c) })
	t.Run("scripts", func(t *testing.T) { testClusterScripts(t, c) })
	t.Run("one server of it", func(t *testing.T) { testOneServerOfTheCluster(t, c) })
	t.Run("moving slot", func(t *testing.T) { testMovingSlot(t, c) })
	t.Run("eviction", func(t *testing.T) { testClusterEviction(t, c) })
	t.Run("replicas", func(t *testing.T) { testClusterReplicas(t, c) })
	t.Run("away", func(t *testing.T) { testClusterThatIsAway(t, c) }) // the last one
}

// Whatever a resource is called, its mark and its data lie in one slot. Names are those that confuse hash tags.
func testClusterKeys(t *testing.T, c *redistest.Cluster) {
	client := c.Client(t)
	g := newGuard(t, client, nil)
	seen, marks := make(map[string]string), make(map[string]bool)
	for _, r := range []string{"a", "{", "}", "{}", "{}a", "}{", "{a}", "{a}b", "a{b}c", "a}b", "{{a}}", "%7B", "%", "a:b", "a b\n", "a#mark", "ä{ö}ü"} {
		put := redis.NewScript(`redis.call('SET', KEYS[1], ARGV[1]) redis.call('SET', KEYS[2], ARGV[1]) return KEYS[2]`)
		keys := []string{g.Key(r, "one"), g.Key(r, "}{")}
		if got, err := g.Run(t.Context(), r, 5, put, keys, r).Text(); err != nil || got != keys[1] {
			t.Errorf("%q: %q, %v", r, got, err)
		}
		accepted(t, r, g.Set(t.Context(), r, 5, r, 0))
		for _, k := range append(keys, g.Key(r, ""), g.Key(r, "")+"#mark") {
			if other, taken := seen[k]; taken {
				t.Errorf("%q and %q share the key %q", r, other, k)
			}
			seen[k] = r
		}
		marks[g.Key(r, "")+"#mark"] = true
	}
	for k, r := range seen {
		if got := client.Get(t.Context(), k).Val(); marks[k] && !strings.HasPrefix(got, "1 5 ") || !marks[k] && got != r {
			t.Errorf("%q holds %q; want %q, or a mark", k, got, r)
		}
	}
	// What would be a CROSSSLOT is refused by name.
	err := g.Run(t.Context(), "a", 5, count, []string{g.Key("b", "n")}).Err()
	plant(t, "a foreign key", err)
	if err == nil || !strings.Contains(err.Error(), "fencedlock:{b}:n") {
		t.Errorf("a foreign key: %v; want its name", err)
	}
}

func testClusterScripts(t *testing.T, c *redistest.Cluster) {
	client := c.Client(t)
	g := newGuard(t, client, nil)
	for i := range 20 {
		if i%5 == 0 {
			accepted(t, "SCRIPT FLUSH", client.ScriptFlush(t.Context()).Err())
		}
		r := fmt.Sprint("r", i)
		accepted(t, r, g.Set(t.Context(), r, 5, r, 0))
		accepted(t, r, g.Run(t.Context(), r, 5, count, []string{g.Key(r, "n")}).Err())
		stale(t, r, g.Set(t.Context(), r, 4, "late", 0), r, 4, 5)
		holds(t, g, r, r, 5)
	}
}

// A client that knows one server alone is sent on to others, and does not go.
func testOneServerOfTheCluster(t *testing.T, c *redistest.Cluster) {
	g := newGuard(t, c.Servers[0].Client(t), nil)
	moved := 0
	for i := range 9 {
		err := g.Set(t.Context(), fmt.Sprint("one ", i), 5, "a", 0)
		if err != nil {
			plant(t, "Set", err)
			if strings.Contains(err.Error(), "MOVED") {
				moved++
			}
		}
	}
	if moved == 0 {
		t.Error("none of the resources was elsewhere")
	}
}

// A client that reads from replicas asks the primary here, and WAIT is asked on a connection to it.
func testClusterReplicas(t *testing.T, c *redistest.Cluster) {
	replica := c.StartReplica(t, c.Servers[0]).Client(t)
	reader := c.Client(t, func(o *redis.ClusterOptions) { o.ReadOnly = true })
	g := newGuard(t, reader, &redisguard.Options{Replicas: 1, ReplicaTimeout: 300 * time.Millisecond})
	replicated, resources := 0, 9
	for i := range resources {
		r := fmt.Sprint("replicas ", i)
		err := g.Set(t.Context(), r, 5, "a", 0)
		var few *redisguard.NotReplicatedError
		switch {
		case err == nil:
			replicated++
		case !errors.As(err, &few) || few.Replicas != 0:
			t.Errorf("%s: %v; want a NotReplicatedError where there is no replica", r, err)
		}
		holds(t, g, r, "a", 5)
		stale(t, r, g.Set(t.Context(), r, 4, "late", 0), r, 4, 5)
	}
	if replicated == 0 || replicated == resources {
		t.Errorf("%d of %d resources were replicated; one of three primaries has a replica", replicated, resources)
	}
	if text := replica.Info(t.Context(), "commandstats").Val(); strings.Contains(text, "cmdstat_eval") || strings.Contains(text, "cmdstat_get") {
		t.Errorf("the replica was asked:\n%s", text)
	}
}

// A resource moves to another server, key by key, while it is written to.
func testMovingSlot(t *testing.T, c *redistest.Cluster) {
	const r = "moving"
	client := c.Client(t)
	g := newGuard(t, client, nil)
	waiting := newGuard(t, c.Client(t), &redisguard.Options{Replicas: 1, ReplicaTimeout: time.Millisecond}) // nobody else tells its client who has what
	accepted(t, "Set", g.Set(t.Context(), r, 5, "a", 0))
	mark, value := g.Key(r, "")+"#mark", g.Key(r, "")
	slot := client.ClusterKeySlot(t.Context(), mark).Val()
	from, err := client.MasterForKey(t.Context(), mark)
	if err != nil {
		t.Fatal(err)
	}
	var to *redis.Client
	for _, s := range c.Servers {
		if s.Addr() != from.Options().Addr {
			to = s.Client(t)
		}
	}
	id := func(c *redis.Client) string { return c.ClusterMyID(t.Context()).Val() }
	do("cluster", "setslot", slot, "importing", id(from))(t, to)
	do("cluster", "setslot", slot, "migrating", id(to))(t, from)
	_, port, _ := strings.Cut(to.Options().Addr, ":")
	move := func(key string) { do("migrate", "127.0.0.1", port, key, 0, 5000)(t, from) }

	accepted(t, "before the first key", g.Set(t.Context(), r, 6, "b", 0))
	holds(t, g, r, "b", 6)
	holds(t, g, "{"+r+"}", "", 0) // of no key
	move(mark)
	holds(t, g, r, "b", 6)
	plant(t, "between the keys", g.Set(t.Context(), r, 7, "c", 0)) // TRYAGAIN
	move(value)
	holds(t, g, r, "b", 6)
	accepted(t, "after the last key", g.Set(t.Context(), r, 8, "d", 0)) // ASK
	plant(t, "on one connection", waiting.Set(t.Context(), r, 9, "e", 0))
	stale(t, "after the last key", g.Set(t.Context(), r, 7, "late", 0), r, 7, 8)
	accepted(t, "Del", g.Del(t.Context(), r, 8))
	plant(t, "without a value", g.Set(t.Context(), r, 8, "e", 0)) // TRYAGAIN, as the package's text says
	holds(t, g, r, "", 8)
	for _, s := range c.Servers {
		do("cluster", "setslot", slot, "node", id(to))(t, s.Client(t))
	}
	stale(t, "moved", g.Set(t.Context(), r, 7, "late", 0), r, 7, 8)
	unknown(t, "moved, and no replica", waiting.Set(t.Context(), r, 9, "f", 0))
	holds(t, g, r, "f", 9)
}

func testClusterEviction(t *testing.T, c *redistest.Cluster) {
	for _, bad := range c.Servers {
		config("maxmemory-policy", "allkeys-lru")(t, bad.Client(t))
		_, err := redisguard.New(t.Context(), c.Client(t), nil)
		if err == nil || !strings.Contains(err.Error(), "allkeys-lru") || !strings.Contains(err.Error(), bad.Addr()) {
			t.Errorf("New = %v; want the policy and the server named", err)
		}
		config("maxmemory-policy", "noeviction")(t, bad.Client(t))
	}
	newGuard(t, c.Client(t), nil)
}

// What go-redis looks at before it has a connection is not taken for sent.
func testClusterThatIsAway(t *testing.T, c *redistest.Cluster) {
	client := c.Client(t, func(o *redis.ClusterOptions) { o.DialerRetries = 1 })
	g := newGuard(t, client, nil)
	for _, s := range c.Servers {
		s.Kill()
	}
	_ = client.ForEachMaster(t.Context(), func(ctx context.Context, c *redis.Client) error { return c.Ping(ctx).Err() }) // connections of before break
	plant(t, "Set", g.Set(t.Context(), "r", 5, "a", 0))
	plant(t, "Seal", g.Seal(t.Context(), "r", 5))
}
