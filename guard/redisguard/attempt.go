package redisguard

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/fencedlock/guard"
)

// operation is one guarded write. Its number is the same for all attempts.
type operation struct {
	name     string // the method, for texts
	resource string
	tok      guard.Token
	program  *program
	keys     []string // the mark last
	args     []any
	number   string
}

// what names the operation in texts.
func (o *operation) what() string {
	return fmt.Sprintf("redisguard: %s on %q with token %d", o.name, o.resource, int64(o.tok))
}

// answer is what the script said.
type answer struct {
	status string
	value  any
}

// text is the value of those statuses that have a text.
func (a answer) text() string {
	s, _ := a.value.(string)
	return s
}

// processor is a client, or one connection of it.
type processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// mark is the key of the mark.
func (o *operation) mark() string { return o.keys[len(o.keys)-1] }

// attempt sends the operation once; again says that an earlier attempt may have been applied. The error is a *refusal if it was certainly not applied by this attempt, else it may
// have been.
func (g *Guard) attempt(ctx context.Context, o *operation, again bool) (answer, error) {
	if g.opts.Replicas == 0 {
		return g.send(ctx, g.client, o, again)
	}
	primary := g.server
	if g.cluster != nil {
		var err error
		if primary, err = g.cluster.MasterForKey(ctx, o.mark()); err != nil {
			return answer{}, refused(err)
		}
	}
	conn := primary.Conn() // WAIT is about what its own connection wrote
	defer conn.Close()
	a, err := g.send(ctx, conn, o, again)
	if err != nil {
		if _, moved := redis.IsMovedError(err); moved || redis.IsReadOnlyError(err) {
			g.reload(ctx) // a connection follows no redirection
		}
		return a, err
	}
	if a.status == "ran" || a.status == "error" {
		err = g.wait(ctx, conn, o)
	}
	return a, err
}

// reload has the cluster client ask who has which slots, and waits for it. Its ReloadState does not wait.
func (g *Guard) reload(ctx context.Context) {
	if g.cluster != nil {
		_ = g.cluster.ForEachMaster(ctx, func(context.Context, *redis.Client) error { return nil }) // the next attempt shows
	}
}

func (g *Guard) send(ctx context.Context, p processor, o *operation, again bool) (answer, error) {
	first := "first"
	if again {
		first = "again"
	}
	number := &watched{text: o.number}
	args := append(slices.Clip(o.args), o.tok.String(), g.instance, number, first)
	c := newCommand(ctx, "evalsha", o.program.sha, o.keys, args, number)
	err := p.Process(ctx, c)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		c = newCommand(ctx, "eval", o.program.source, o.keys, args, number)
		err = p.Process(ctx, c)
	}
	if err != nil {
		if c.applied() {
			return answer{}, err // a lost reply, or a request that may still be under way
		}
		if isCut(err) {
			err = fmt.Errorf("the request could not be written to its end, as when the server goes away or an argument is longer than its proto-max-bulk-len: %w", err)
		}
		return answer{}, refused(err)
	}
	a := answer{}
	switch v := c.Val().(type) {
	case string:
		a.status = v
	case []any:
		if len(v) > 0 {
			a.status, _ = v[0].(string)
		}
		if len(v) > 1 { // the nil at the end of a list is cut off
			a.value = v[1]
		}
	}
	if a.status == "not marked" || a.status == "not marked again" {
		err = fmt.Errorf("the mark at the key %q: %w", o.mark(), scriptError(a.text()))
		if a.status == "not marked" && number.written.Load() == 1 { // the script's first command was refused
			err = refused(err)
		}
	}
	return a, err
}

// wait returns nil when enough replicas have what this connection wrote, a *NotReplicatedError when they have not in
// time, and another error if that is not known.
func (g *Guard) wait(ctx context.Context, conn *redis.Conn, o *operation) error {
	limit := g.opts.ReplicaTimeout
	if deadline, ok := ctx.Deadline(); ok {
		limit = max(min(limit, time.Until(deadline)), time.Millisecond) // 0 would be for ever
	}
	n, err := conn.Wait(ctx, g.opts.Replicas, limit).Result()
	if err != nil {
		return fmt.Errorf("WAIT: %w", err)
	}
	if int(n) < g.opts.Replicas {
		return &NotReplicatedError{Resource: o.resource, Token: o.tok, Replicas: int(n), Wanted: g.opts.Replicas}
	}
	return nil
}
