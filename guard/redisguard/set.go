package redisguard

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/fencedlock/guard"
)

// Set makes value the value of resource, guarded by tok. ttl is its time to live, in whole milliseconds, rounded up; 0 is
// for ever, redis.KeepTTL is refused. It is the value's alone, the mark stays. value is a text, bytes, a number or whatever else go-redis writes as
// one argument. It passes through Lua, which copies it: up to some KiB nobody notices, at 64 KiB the call takes three times
// as long as a plain SET.
//
// The error is one of these:
//   - a [*guard.StaleError] if the resource has seen a higher token: nothing was written;
//   - one that wraps [guard.ErrNoToken], or [guard.CheckResource]'s, or about value or ttl: nothing was sent;
//   - one that wraps [guard.ErrUnknown] if an answer was lost and the mark does not tell, see the package's text, or a
//     [*NotReplicatedError];
//   - any other: nothing was written, though the mark may have been raised. Among them are the errors of the plant, such as
//     go-redis's for a server that is away or READONLY; those that can pass in a moment have been tried four times. A mark
//     that cannot be read is an error that names its key.
//
// ctx governs the whole call, with the wait for an earlier operation of this Guard on resource, but go-redis waits for a reply that is under way until its ReadTimeout. With the client's
// ContextTimeoutEnabled it waits no longer than ctx's deadline; a cancellation alone it does not see there. A context that has ended before the call gives its error, and nothing is sent.
func (g *Guard) Set(ctx context.Context, resource string, tok guard.Token, value any, ttl time.Duration) (err error) {
	defer func() { g.report(ctx, resource, tok, err) }()
	if err := g.check(resource, tok); err != nil {
		return err
	}
	value, err = sendable(value)
	if err != nil {
		return fmt.Errorf("redisguard: Set on %q: the value: %w", resource, err)
	}
	args := []any{value}
	switch {
	case ttl == redis.KeepTTL:
		return fmt.Errorf("redisguard: Set on %q: redis.KeepTTL is not supported; give each Set its time to live, 0 for ever", resource)
	case ttl < 0:
		return fmt.Errorf("redisguard: Set on %q: the time to live %v is negative; 0 is for ever", resource, ttl)
	case ttl > 0:
		ms := int64(ttl / time.Millisecond)
		if ttl%time.Millisecond != 0 {
			ms++
		}
		args = append(args, ms)
	}
	key := g.Key(resource, "")
	_, err = g.do(ctx, &operation{name: "Set", resource: resource, tok: tok, program: setProgram, keys: []string{key, key + markSuffix}, args: args})
	return err
}

// Del removes the value of resource, guarded by tok, and keeps the mark. That there is none is no error. Its errors are
// those of [Guard.Set].
func (g *Guard) Del(ctx context.Context, resource string, tok guard.Token) (err error) {
	defer func() { g.report(ctx, resource, tok, err) }()
	if err := g.check(resource, tok); err != nil {
		return err
	}
	key := g.Key(resource, "")
	_, err = g.do(ctx, &operation{name: "Del", resource: resource, tok: tok, program: delProgram, keys: []string{key, key + markSuffix}})
	return err
}

// Get returns the value of resource; if there is none, the error is redis.Nil itself. It takes no token. It is answered
// by a server that takes writes, also when the client would read from replicas (ReadOnly, RouteByLatency,
// ReplicaOnly): what was acknowledged before is seen, within the limits that the package's text tells of failovers. A
// server that refuses writes for another reason refuses this, too. Seal before you read, see [guard.Sealer]. ctx governs
// the call as with [Guard.Set].
func (g *Guard) Get(ctx context.Context, resource string) (string, error) {
	if err := g.made(); err != nil {
		return "", err
	}
	if err := guard.CheckResource(resource); err != nil {
		return "", err
	}
	value, err := g.read(ctx, g.Key(resource, ""))
	if err != nil && err != redis.Nil {
		err = because(ctx, fmt.Errorf("redisguard: Get of %q: %w", resource, err))
	}
	return value, err
}

// read returns redis.Nil if there is no such key. GETEX without an option changes nothing, but counts as a write: so a
// replica, which may be behind, does not answer. It has one key, so that it goes on while a slot moves, and go-redis may
// repeat it as it likes.
func (g *Guard) read(ctx context.Context, key string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	cmd := redis.NewStringCmd(ctx, "getex", key)
	_ = g.client.Process(ctx, cmd)
	return cmd.Result()
}
