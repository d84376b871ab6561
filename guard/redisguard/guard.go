// Package redisguard guards data in Redis: one Lua script compares the mark of a resource with the writer's token, raises
// it and writes, and a writer with a lower token is refused. It works over go-redis, with a single server, with Sentinel
// and with a cluster.
//
//	client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
//	g, err := redisguard.New(ctx, client, nil)
//	err = g.Set(ctx, resource, tok, "value", 0)
//	cmd := g.Run(ctx, resource, tok, script, []string{g.Key(resource, "stock")}, 1)
//
// What it guarantees: once a write with a token has been applied, none with a lower token of the same resource is,
// whatever pauses, retries or lost messages there are, for as long as Redis keeps the mark.
//
// What it does not, first of all: a mark is no more durable than Redis. Redis answers before a replica has what was written,
// and replicates later. A replica that is promoted before that, by Sentinel, a cluster or a person, does not know the latest
// mark, and lets a writer in who was refused before; a primary that is cut off and not yet deposed goes on taking writes
// that will be thrown away. Options.Replicas makes every write wait until so many replicas have it, and says so when they
// have not. That leaves the failover to a replica that is none of them: a majority, and a promotion that takes the replica
// that is furthest, is as far as Redis goes. On one server, what is not in its append-only file is lost with a crash:
// appendfsync always loses nothing, everysec up to two seconds when the machine fails, snapshots everything since the last
// one. Where a fault is not to happen, guard data in a database with consensus or a single disk, see package sqlguard or
// etcdguard.
//
// Nor does it guard what does not pass it: commands of other programs, the deletion of a mark by hand or FLUSHALL. A token
// is no secret and gives no rights. Marks are never deleted, and have no time to live. Pipelines and transactions
// (MULTI) are not offered: a script does what they do.
//
// Each operation has a number, and the mark keeps the last number of each of the eight Guards that wrote last, and the last
// reply. So an operation whose reply is lost is sent again, and is applied once at most: Redis answers what it answered
// before, or that it was applied, or applies it. A lost reply gives [guard.ErrUnknown] only when no answer comes at all,
// when Run's reply was overwritten by another Guard's operation, or when eight other Guards have written since. When no
// answer comes, the request may still be on its way. It can be applied later, but never after a later Set, Del, Run or Seal
// of this Guard on that resource, with whatever token, was accepted. So the way to find out is to Seal again with the same
// token, and then to read: what is read stays. All this ends where eight other Guards write one resource with the same
// token in between: then what is late is taken for new.
//
// For this the operations of one Guard on one resource run one at a time, and wait for each other in the process; those on
// different resources do not. Where many goroutines write one resource, that is their rate: one round trip each.
//
// Set the client's ContextTimeoutEnabled, and give each call a deadline. Without it go-redis waits for a reply until its
// ReadTimeout, 5 s unless you set it, whatever the context says: a call with a deadline of 300 ms takes these 5 s when Redis
// does not answer. Even with it that wait is ended by a deadline only, not by a cancellation. [New] warns when it is off.
//
// The mark of a resource is at the key prefix{resource}#mark, beside the value at prefix{resource}, see [Guard.Key].
//
// Get, Highest and all writes are answered by servers that take writes, so they fail while a primary refuses them, for
// example for want of replicas.
//
// While a slot of a cluster moves to another server, reads go on. Writes get TRYAGAIN, and are not applied, as long as the
// resource's keys are not all on one side, which also is so for a resource that has a mark and no value, until the move is
// over. With Options.Replicas writes to what has moved already fail until then, too, since they follow no redirection.
//
// Tested on Redis 7.0, alone, with Sentinel and as a cluster. It needs scripts, and of the server's rights EVAL, EVALSHA, GET,
// GETEX, SET and DEL on the keys of the prefix, and INFO; with Options.Replicas WAIT; CONFIG GET is asked for a warning's
// sake and may be refused.
package redisguard

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/fencedlock/fencedlock/guard"
)

// Options are the choices of a Guard. The zero value of each field is its default.
type Options struct {
	// Prefix begins all keys of the guard; default "fencedlock:". It is at most 128 bytes without braces. Two prefixes are
	// two sets of marks.
	Prefix string

	// Replicas is how many replicas must have a write, and with it the mark, before it counts as done; default 0, none.
	// When fewer have it after ReplicaTimeout, the write is applied on the primary, and its error is a
	// [*NotReplicatedError], which wraps [guard.ErrUnknown]: a failover can lose it. Each write then takes a second
	// round trip, and a connection of its own for both.
	Replicas int

	// ReplicaTimeout is how long a write waits for replicas; default 1 s, at least 1 ms. It makes sense with Replicas only.
	ReplicaTimeout time.Duration

	// Logger gets the warnings of [New]. nil: silent.
	Logger *zap.Logger

	// OnOutcome is called once at the end of each Set, Del, Run and Seal with its arguments and the error it is about to
	// return; the reply nil of a script counts as no error. It must return quickly: the caller waits. nil: nothing is called.
	OnOutcome func(ctx context.Context, resource string, tok guard.Token, err error)
}

// Guard guards the data of one Redis, which is a server, a group with Sentinel or a cluster. It is safe for concurrent
// use. [New] makes one; the methods of a zero or nil Guard return an error.
type Guard struct {
	client   redis.UniversalClient
	server   *redis.Client        // nil for a cluster
	cluster  *redis.ClusterClient // nil for a server
	opts     Options
	instance string // tells this Guard's operations from those of others
	programs programs
	turns    turns
	numbers  atomic.Int64 // the last operation's number
}

// instanceLength is that of random names in marks, in characters of five bits each.
const instanceLength = 16

var _ guard.Sealer = (*Guard)(nil)

// New returns a guard for what client talks to: a [*redis.Client], also one of NewFailoverClient, or a
// [*redis.ClusterClient]. A [*redis.Ring] is refused, since it moves keys to other servers and leaves their marks behind.
// The caller closes the client. nil Options are the defaults.
//
// New asks the server, in a cluster every primary: it refuses an eviction policy that drops marks (allkeys-lru, allkeys-lfu,
// allkeys-random), whatever the limit of memory is at the moment, and a server that is a replica; it warns when there is no
// append-only file, and when the client's ContextTimeoutEnabled is off. What is configured later, and servers that are
// promoted later, it does not see: give all of them the same configuration. ctx governs the asking.
func New(ctx context.Context, client redis.UniversalClient, o *Options) (*Guard, error) {
	if o == nil {
		o = &Options{}
	}
	g := &Guard{client: client, opts: *o, instance: rand.Text()[:instanceLength]}
	if err := g.opts.complete(); err != nil {
		return nil, err
	}
	switch c := client.(type) {
	case *redis.Client:
		g.server = c
	case *redis.ClusterClient:
		g.cluster = c
	case *redis.Ring:
		return nil, errors.New("redisguard: client is a *redis.Ring, which moves keys to other servers and leaves their marks behind; use a cluster")
	case nil:
		return nil, errors.New("redisguard: client is nil")
	default:
		return nil, fmt.Errorf("redisguard: client is a %T, of which it is not known how it sends; give New a *redis.Client or a *redis.ClusterClient", client)
	}
	if g.server == nil && g.cluster == nil {
		return nil, errors.New("redisguard: client is nil")
	}
	if err := g.inspect(ctx); err != nil {
		return nil, err
	}
	g.warnUnbounded()
	return g, nil
}

// complete checks the options and fills in the defaults.
func (o *Options) complete() error {
	switch {
	case o.Prefix == "":
		o.Prefix = "fencedlock:"
	case len(o.Prefix) > 128:
		return fmt.Errorf("redisguard: Options.Prefix: %d bytes are more than 128", len(o.Prefix))
	case strings.ContainsAny(o.Prefix, "{}"):
		return fmt.Errorf("redisguard: Options.Prefix: %q has a brace, which would change the slots of keys", o.Prefix)
	}
	switch {
	case o.Replicas < 0:
		return fmt.Errorf("redisguard: Options.Replicas: %d is negative; 0 is not to wait", o.Replicas)
	case o.ReplicaTimeout != 0 && o.Replicas == 0:
		return errors.New("redisguard: Options.ReplicaTimeout: it says how long to wait for Options.Replicas, which is 0")
	case o.ReplicaTimeout == 0:
		o.ReplicaTimeout = time.Second
	case o.ReplicaTimeout < time.Millisecond:
		return fmt.Errorf("redisguard: Options.ReplicaTimeout: %v is less than 1 ms", o.ReplicaTimeout)
	}
	return nil
}

// made returns an error for a Guard that New did not make.
func (g *Guard) made() error {
	if g == nil || g.client == nil {
		return errors.New("redisguard: this Guard was not made by New")
	}
	return nil
}

// check is the beginning of every write.
func (g *Guard) check(resource string, tok guard.Token) error {
	if err := g.made(); err != nil {
		return err
	}
	return guard.Check(resource, tok, 0)
}

// report hands an operation's outcome to the user.
func (g *Guard) report(ctx context.Context, resource string, tok guard.Token, err error) {
	if g != nil && g.opts.OnOutcome != nil {
		g.opts.OnOutcome(ctx, resource, tok, err)
	}
}
