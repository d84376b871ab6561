//go:build unix

package redisguard_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/redisguard"
	"github.com/fencedlock/fencedlock/internal/redistest"
)

// cutOff lets the replica lose its primary, and keep what it has.
func cutOff(t *testing.T, replica *redistest.Server) {
	t.Helper()
	dead := redistest.Start(t)
	dead.Kill()
	accepted(t, "REPLICAOF", replica.Client(t).Do(t.Context(), "replicaof", "127.0.0.1", dead.Port).Err())
}

func promote(t *testing.T, primary, replica *redistest.Server) {
	t.Helper()
	primary.Kill()
	accepted(t, "REPLICAOF NO ONE", replica.Client(t).Do(t.Context(), "replicaof", "no", "one").Err())
}

// An asynchronous replica is promoted that does not have the last mark:
// https://github.com/redisson/redisson/issues/2669, https://github.com/dapr/docs/pull/4771, https://github.com/opsmill/infrahub/issues/9450
func TestFailoverLosesAMarkThatNobodyWaitedFor(t *testing.T) {
	primary := redistest.Start(t)
	replica := primary.StartReplica(t)
	g := newGuard(t, primary.Client(t), nil)
	safe := newGuard(t, primary.Client(t), &redisguard.Options{Replicas: 1, ReplicaTimeout: 30 * time.Second})
	accepted(t, "5, on both", safe.Set(t.Context(), "r", 5, "five", 0))
	cutOff(t, replica)
	accepted(t, "9, which nobody waits for", g.Set(t.Context(), "r", 9, "nine", 0))
	promote(t, primary, replica)

	// This is what the package's text warns of. Should it ever be refused, the text is to be changed.
	after := newGuard(t, replica.Client(t), nil)
	holds(t, after, "r", "five", 5)
	accepted(t, "7, after 9 was accepted elsewhere", after.Set(t.Context(), "r", 7, "seven", 0))
}

func TestWriteThatNoReplicaHasIsUnknownUntilItHas(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t)
	replica := primary.StartReplica(t)
	g := newGuard(t, primary.Client(t), &redisguard.Options{Replicas: 1, ReplicaTimeout: 50 * time.Millisecond})
	patient := newGuard(t, primary.Client(t), &redisguard.Options{Replicas: 1, ReplicaTimeout: 30 * time.Second})
	accepted(t, "5", patient.Set(t.Context(), "r", 5, "five", 0))
	cutOff(t, replica)

	for op, err := range map[string]error{
		"Set":  g.Set(t.Context(), "r", 9, "nine", 0),
		"Seal": g.Seal(t.Context(), "r", 9),
		"Del":  g.Del(t.Context(), "other", 9),
		"Run":  g.Run(t.Context(), "r", 9, count, []string{g.Key("r", "n")}).Err(),
		"Run, error": g.Run(t.Context(), "r", 9, redis.NewScript(`redis.call('INCR', KEYS[1]) return redis.error_reply('EMPTY x')`),
			[]string{g.Key("r", "n")}).Err(),
	} {
		unknown(t, op, err)
		var few *redisguard.NotReplicatedError
		if !errors.As(err, &few) || few.Replicas != 0 || few.Wanted != 1 || few.Token != 9 {
			t.Errorf("%s: %v; want a NotReplicatedError", op, err)
		}
	}
	stale(t, "7 is refused here all the same", g.Set(t.Context(), "r", 7, "late", 0), "r", 7, 9)
	holds(t, g, "r", "nine", 9)

	accepted(t, "REPLICAOF", replica.Client(t).Do(t.Context(), "replicaof", "127.0.0.1", primary.Port).Err())
	accepted(t, "Seal, once the replica is back", patient.Seal(t.Context(), "r", 9))
	promote(t, primary, replica)
	after := newGuard(t, replica.Client(t), nil)
	stale(t, "7, after the failover", after.Set(t.Context(), "r", 7, "late", 0), "r", 7, 9)
	holds(t, after, "r", "nine", 9)
}

// The answer to a repeated request is no proof that a replica has the first one, unless it is waited for as well.
func TestRepeatedRequestWaitsForReplicasToo(t *testing.T) {
	primary := redistest.Start(t)
	replica := primary.StartReplica(t)
	o := &redisguard.Options{Replicas: 1, ReplicaTimeout: 50 * time.Millisecond}
	proxy := redistest.NewProxy(t, primary.Addr())
	through := redis.NewClient(&redis.Options{Addr: proxy.Addr})
	defer through.Close()
	g := newGuard(t, through, o)
	patient := newGuard(t, primary.Client(t), &redisguard.Options{Replicas: 1, ReplicaTimeout: 30 * time.Second})
	accepted(t, "Set", patient.Set(t.Context(), "r", 5, "a", 0))
	replica.Pause(t) // connected, and behind
	proxy.Fail(redistest.LoseReply)
	err := g.Set(t.Context(), "r", 6, "b", 0)
	var few *redisguard.NotReplicatedError
	if !errors.As(err, &few) {
		t.Errorf("Set = %v; want a NotReplicatedError", err)
	}
	holds(t, g, "r", "b", 6)
}

// Sentinel promotes a replica, and the client follows.
func TestSentinelFailoverKeepsTheMarkThatWasWaitedFor(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t)
	primary.StartReplica(t)
	sentinel := redistest.StartSentinel(t, primary)
	client := func() *redis.Client {
		c := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redistest.Group, SentinelAddrs: []string{sentinel.Addr()}})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	holder, old := newGuard(t, client(), &redisguard.Options{Replicas: 1, ReplicaTimeout: 30 * time.Second}), newGuard(t, client(), nil)
	accepted(t, "7", old.Set(t.Context(), "r", 7, "seven", 0))
	accepted(t, "9", holder.Set(t.Context(), "r", 9, "nine", 0))
	primary.Kill()

	// The old holder tries until it gets an answer. None of the errors before it may be taken for one.
	var err error
	redistest.Eventually(t, "the failover is over", func() bool {
		err = old.Set(t.Context(), "r", 7, "late", 0)
		return errors.Is(err, guard.ErrStale) || err == nil
	})
	stale(t, "7, after the failover", err, "r", 7, 9)
	holds(t, old, "r", "nine", 9)
	accepted(t, "9 goes on", old.Set(t.Context(), "r", 9, "more", 0))
}
