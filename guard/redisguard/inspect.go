package redisguard

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

// inspect looks at the server, or at every primary of the cluster.
func (g *Guard) inspect(ctx context.Context) error {
	if g.server != nil {
		return g.inspectServer(ctx, g.server)
	}
	var seen atomic.Int32
	err := g.cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
		seen.Add(1)
		return g.inspectServer(ctx, c)
	})
	if err == nil && seen.Load() == 0 {
		err = errors.New("redisguard: the cluster has no primary")
	}
	return err
}

func (g *Guard) inspectServer(ctx context.Context, c *redis.Client) error {
	section := &watched{text: "default"}
	cmd := &command{redis.NewCmd(ctx, "info", section), section}
	if err := c.Process(ctx, cmd); err != nil {
		return fmt.Errorf("redisguard: INFO, which tells the eviction policy, was not answered: %w", err)
	}
	if section.written.Load() == 0 {
		return errors.New("redisguard: this version of go-redis writes commands in a way that cannot be watched; take the one that go.mod names")
	}
	text, err := cmd.Text()
	if err != nil {
		return fmt.Errorf("redisguard: INFO: %w", err)
	}
	info := parseInfo(text)
	server := c.Options().Addr
	switch policy := info["maxmemory_policy"]; {
	case policy == "":
		return fmt.Errorf("redisguard: %s does not say in INFO which eviction policy it has, so it may drop marks", server)
	case strings.HasPrefix(policy, "allkeys-"):
		return fmt.Errorf("redisguard: the eviction policy of %s is %s, which drops marks, and with them the protection; set maxmemory-policy to noeviction, "+
			"or to a volatile one, which drops values with a time to live only", server, policy)
	}
	if info["role"] != "master" {
		return fmt.Errorf("redisguard: %s is no primary but has the role %q; connect to the primary, or through Sentinel or a cluster client", server, info["role"])
	}
	if info["aof_enabled"] == "0" {
		g.warnVolatile(ctx, c, server)
	}
	return nil
}

// warnVolatile says what a crash loses on a server without an append-only file.
func (g *Guard) warnVolatile(ctx context.Context, c *redis.Client, server string) {
	if g.opts.Logger == nil {
		return
	}
	log := g.opts.Logger.With(zap.String("server", server))
	save, err := c.ConfigGet(ctx, "save").Result()
	switch {
	case err != nil: // forbidden where Redis is rented
		log.Warn("redisguard: there is no append-only file: a crash loses the marks since the last snapshot, if there are any; set appendonly yes")
	case save["save"] == "":
		log.Warn("redisguard: nothing is persisted: a restart loses all marks, and lets writers in who were refused; set appendonly yes")
	default:
		log.Warn("redisguard: there are only snapshots: a crash loses the marks since the last one, and lets writers in who were refused; set appendonly yes",
			zap.String("save", save["save"]))
	}
}

// warnUnbounded says that the context will not bound what it is expected to.
func (g *Guard) warnUnbounded() {
	bounded, readTimeout := false, time.Duration(0)
	if g.server != nil {
		bounded, readTimeout = g.server.Options().ContextTimeoutEnabled, g.server.Options().ReadTimeout
	} else {
		bounded, readTimeout = g.cluster.Options().ContextTimeoutEnabled, g.cluster.Options().ReadTimeout
	}
	if !bounded && g.opts.Logger != nil {
		g.opts.Logger.Warn("redisguard: the client's ContextTimeoutEnabled is off: a call whose context has a deadline waits for a reply beyond it, until ReadTimeout; set it",
			zap.Duration("ReadTimeout", readTimeout))
	}
}

// parseInfo reads the lines "name:value" of INFO.
func parseInfo(text string) map[string]string {
	info := make(map[string]string)
	for s := bufio.NewScanner(strings.NewReader(text)); s.Scan(); {
		if name, value, ok := strings.Cut(strings.TrimSpace(s.Text()), ":"); ok {
			info[name] = value
		}
	}
	return info
}
