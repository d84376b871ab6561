//go:build unix

package redisguard_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/fencedlock/fencedlock/guard/redisguard"
	"github.com/fencedlock/fencedlock/internal/redistest"
)

func TestNewRefusesWhatMakesNoSense(t *testing.T) {
	s := redistest.Start(t)
	c := s.Client(t)
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": s.Addr()}})
	defer ring.Close()
	for _, k := range []struct {
		names string // what the error must name
		c     redis.UniversalClient
		o     redisguard.Options
	}{
		{"client", nil, redisguard.Options{}},
		{"client", (*redis.Client)(nil), redisguard.Options{}},
		{"client", (*redis.ClusterClient)(nil), redisguard.Options{}},
		{"Ring", ring, redisguard.Options{}},
		{"struct", struct{ redis.UniversalClient }{c}, redisguard.Options{}},
		{"Options.Prefix", c, redisguard.Options{Prefix: "a{"}},
		{"Options.Prefix", c, redisguard.Options{Prefix: "a}"}},
		{"Options.Prefix", c, redisguard.Options{Prefix: strings.Repeat("a", 129)}},
		{"Options.Replicas", c, redisguard.Options{Replicas: -1}},
		{"Options.ReplicaTimeout", c, redisguard.Options{ReplicaTimeout: time.Second}},
		{"Options.ReplicaTimeout", c, redisguard.Options{Replicas: 1, ReplicaTimeout: -time.Second}},
		{"Options.ReplicaTimeout", c, redisguard.Options{Replicas: 1, ReplicaTimeout: time.Microsecond}},
	} {
		g, err := redisguard.New(t.Context(), k.c, &k.o)
		if g != nil || err == nil || !strings.HasPrefix(err.Error(), "redisguard: ") || !strings.Contains(err.Error(), k.names) {
			t.Errorf("%T, %+v: %v, %v; want an error that names %s", k.c, k.o, g, err, k.names)
		}
	}
}

func TestNewRefusesServersThatDropMarks(t *testing.T) {
	s := redistest.Start(t)
	c := s.Client(t)
	for policy, ok := range map[string]bool{"allkeys-lru": false, "allkeys-lfu": false, "allkeys-random": false,
		"noeviction": true, "volatile-lru": true, "volatile-lfu": true, "volatile-random": true, "volatile-ttl": true} {
		config("maxmemory-policy", policy)(t, c)
		_, err := redisguard.New(t.Context(), c, nil)
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), policy) {
			t.Errorf("%s: %v", policy, err)
		}
	}
	// What cannot be seen is not taken for good. CONFIG is often forbidden, and not needed.
	config("maxmemory-policy", "noeviction")(t, c)
	do("acl", "setuser", "default", "-config")(t, c)
	newGuard(t, c, &redisguard.Options{Logger: zap.NewNop()})
	do("acl", "setuser", "default", "-info")(t, c)
	if _, err := redisguard.New(t.Context(), c, nil); err == nil || !strings.Contains(err.Error(), "INFO") {
		t.Errorf("without INFO: %v", err)
	}
}

// The control of the above: what eviction does to a mark.
func TestEvictionDropsMarks(t *testing.T) {
	c, g := start(t)
	accepted(t, "Set", g.Set(t.Context(), "r", 9, "nine", 0))
	config("maxmemory-policy", "allkeys-random")(t, c)
	config("maxmemory", "1")(t, c)
	_ = c.Set(t.Context(), "x", "y", 0).Err() // evicts all it can
	config("maxmemory", "0")(t, c)
	accepted(t, "7 after 9, whose mark was evicted", g.Set(t.Context(), "r", 7, "late", 0))
}

func TestNewRefusesAReplica(t *testing.T) {
	s := redistest.Start(t)
	r := s.StartReplica(t)
	if _, err := redisguard.New(t.Context(), r.Client(t), nil); err == nil || !strings.Contains(err.Error(), "slave") {
		t.Errorf("New = %v; want an error about the role", err)
	}
}

func TestNewWarnsOfWhatACrashLoses(t *testing.T) {
	for want, settings := range map[string][]string{
		"nothing is persisted":    nil,
		"there are only snapshot": {"--save", "900 1"},
		"":                        {"--appendonly", "yes"},
	} {
		core, logs := observer.New(zap.WarnLevel)
		c := redis.NewClient(&redis.Options{Addr: redistest.Start(t, settings...).Addr(), ContextTimeoutEnabled: true})
		defer c.Close()
		newGuard(t, c, &redisguard.Options{Logger: zap.New(core)})
		switch all := logs.All(); {
		case want == "" && len(all) != 0:
			t.Errorf("%v: %v; want silence", settings, all)
		case want != "" && (len(all) != 1 || !strings.Contains(all[0].Message, want)):
			t.Errorf("%v: %v; want one warning that %s", settings, all, want)
		}
	}
	// What the warning is about.
	s := redistest.Start(t)
	c := s.Client(t)
	g := newGuard(t, c, nil)
	accepted(t, "Set", g.Set(t.Context(), "r", 9, "nine", 0))
	s.Restart(t)
	redistest.Eventually(t, "7 after 9, whose mark was not persisted", func() bool { return g.Set(t.Context(), "r", 7, "late", 0) == nil })
}

func TestNewSaysWhyItCouldNotAsk(t *testing.T) {
	s := redistest.Start(t)
	c := redis.NewClient(&redis.Options{Addr: s.Addr(), DialerRetries: 1, MaxRetries: -1})
	defer c.Close()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := redisguard.New(over, c, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("New = %v; want context.Canceled", err)
	}
	s.Kill()
	if _, err := redisguard.New(t.Context(), c, nil); err == nil {
		t.Error("New without a server returned nil")
	}
}

func TestZeroGuardReturnsErrors(t *testing.T) {
	for _, g := range []*redisguard.Guard{{}, nil} {
		_, errGet := g.Get(t.Context(), "x")
		_, errHighest := g.Highest(t.Context(), "x")
		for op, err := range map[string]error{
			"Set": g.Set(t.Context(), "x", 5, "v", 0), "Del": g.Del(t.Context(), "x", 5), "Seal": g.Seal(t.Context(), "x", 5), "Get": errGet,
			"Run": g.Run(t.Context(), "x", 5, redis.NewScript("return 1"), nil).Err(), "Highest": errHighest,
		} {
			if err == nil || err.Error() != "redisguard: this Guard was not made by New" {
				t.Errorf("%s: %v; want an error about New", op, err)
			}
		}
		if key := g.Key("x", "y"); key != "" {
			t.Errorf("Key: %q", key)
		}
	}
}

func TestKeepTTLIsRefusedByItsName(t *testing.T) {
	_, g := start(t)
	if err := g.Set(t.Context(), "r", 9, "nine", redis.KeepTTL); err == nil || !strings.Contains(err.Error(), "redis.KeepTTL is not supported") {
		t.Errorf("Set = %v; want an error that names redis.KeepTTL", err)
	}
	holds(t, g, "r", "", 0)
}

func TestNewWarnsOfAClientThatWaitsBeyondDeadlines(t *testing.T) {
	s := redistest.Start(t, "--appendonly", "yes")
	cluster := redistest.StartCluster(t, 1, "--appendonly", "yes")
	for _, on := range []bool{false, true} {
		one := redis.NewClient(&redis.Options{Addr: s.Addr(), ContextTimeoutEnabled: on})
		defer one.Close()
		for _, c := range []redis.UniversalClient{one, cluster.Client(t, func(o *redis.ClusterOptions) { o.ContextTimeoutEnabled = on })} {
			core, logs := observer.New(zap.WarnLevel)
			newGuard(t, c, &redisguard.Options{Logger: zap.New(core)})
			newGuard(t, c, nil)
			warned := len(logs.All()) == 1 && strings.Contains(logs.All()[0].Message, "ContextTimeoutEnabled is off")
			if warned == on || on && len(logs.All()) != 0 {
				t.Errorf("%T with ContextTimeoutEnabled %v: %v", c, on, logs.All())
			}
		}
	}
}

// What the warning is about: Redis does not answer, and the deadline is over.
func TestDeadlineBoundsACallIfTheClientLooksAtIt(t *testing.T) {
	const deadline, readTimeout, never = 50 * time.Millisecond, time.Second, time.Minute
	for _, on := range []bool{false, true} {
		s := redistest.Start(t)
		o := &redis.Options{Addr: s.Addr(), ContextTimeoutEnabled: on, ReadTimeout: readTimeout}
		if on {
			o.ReadTimeout = never
		}
		c := redis.NewClient(o)
		defer c.Close()
		g := newGuard(t, c, nil)
		accepted(t, "Set", g.Set(t.Context(), "r", 9, "nine", 0))
		s.Pause(t)
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		begin := time.Now()
		err := g.Set(ctx, "r", 9, "late", 0)
		took := time.Since(begin)
		cancel()
		s.Resume(t)
		unknown(t, "Set to a server that is stopped", err)
		if on && took > never/2 {
			t.Errorf("it took %v", took)
		}
		if !on && took < readTimeout/2 { // go-redis reckons with a clock that lags
			t.Errorf("without ContextTimeoutEnabled it took %v; so the deadline bounds it after all, and the documentation is wrong", took)
		}
	}
}
