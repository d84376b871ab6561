package redisguard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"github.com/fencedlock/fencedlock/guard"
)

// maxAttempts bounds how often an operation is sent, and firstPause is the longest pause after the first time; each later
// one is four times as long. go-redis itself sends four times.
const (
	maxAttempts = 4
	firstPause  = 16 * time.Millisecond
)

// do carries out an operation whose arguments are sound, and returns the script's reply.
func (g *Guard) do(ctx context.Context, o *operation) (any, error) {
	if ctx.Err() != nil {
		return nil, because(ctx, errors.New("redisguard: the context ended before anything was sent"))
	}
	leave, err := g.turns.enter(ctx, o.resource)
	if err != nil {
		return nil, err
	}
	defer leave()
	o.number = fmt.Sprintf("%016d", g.numbers.Add(1)) // in its turn, so that numbers rise
	var last, lost error                              // lost: why it is not known whether an earlier attempt was applied
	for try := 1; ; try++ {
		var a answer
		a, last = g.attempt(ctx, o, lost != nil)
		var no *refusal
		var few *NotReplicatedError
		switch {
		case last == nil || errors.As(last, &few):
			reply, err := g.conclude(o, a, lost)
			if few != nil && err != nil {
				return nil, fmt.Errorf("%w; and the script's own error is: %w", few, err)
			}
			return reply, cmp.Or(err, last)
		case !errors.As(last, &no):
			lost = last
		case !no.transient:
			return nil, giveUp(ctx, o, last, lost)
		}
		if try == maxAttempts || !pause(ctx, firstPause<<(2*(try-1))) {
			return nil, giveUp(ctx, o, last, lost)
		}
	}
}

// conclude turns an answer of the script into the operation's outcome. lost is not nil if an earlier attempt may have
// been applied, too.
func (g *Guard) conclude(o *operation, a answer, lost error) (any, error) {
	switch a.status {
	case "ran":
		return a.value, nil
	case "error":
		return nil, scriptError(a.text())
	case "failed":
		return nil, fmt.Errorf("%s: %w: the script broke off, and what it had written before stays: %w", o.what(), guard.ErrUnknown, scriptError(a.text()))
	case "not written": // its only command was refused; the mark tells that it is about this operation, whatever was lost
		return nil, fmt.Errorf("%s: not applied, and the mark is raised: %w", o.what(), scriptError(a.text()))
	case "gone":
		return nil, gone(o, a.text())
	case "overtaken":
		return nil, fmt.Errorf("%s: %w: a later operation of this Guard came first; it will not be applied from now on", o.what(), guard.ErrUnknown)
	case "untold":
		return nil, fmt.Errorf("%s: %w: a reply was lost, and eight other Guards have written since, so the mark does not tell whether it was applied; "+
			"Seal, and then read: %w", o.what(), guard.ErrUnknown, lost)
	case "stale": // the mark tells that no earlier attempt was applied
		highest, err := guard.ParseToken(a.text())
		if err == nil {
			err = guard.Check(o.resource, o.tok, highest)
		}
		if !errors.Is(err, guard.ErrStale) { // no token, or none that is higher
			return nil, g.unreadable(o, fmt.Sprintf("a token %q", a.text()), lost)
		}
		return nil, err
	case "unreadable":
		return nil, g.unreadable(o, fmt.Sprintf("%q", a.text()), lost)
	}
	return nil, fmt.Errorf("%s: %w: the script answered %q", o.what(), guard.ErrUnknown, a.status)
}

// gone is the outcome of an operation whose reply the mark has no longer, since another Guard's operation came after it.
func gone(o *operation, how string) error {
	const lost = "its reply was lost, and another operation came after it, so that only this is known"
	switch how {
	case "n":
		return fmt.Errorf("%s: not applied, since Redis refused the command, and the mark is raised; %s", o.what(), lost)
	case "r":
		return fmt.Errorf("%s: %w: it was applied; %s", o.what(), guard.ErrUnknown, lost)
	case "e":
		return fmt.Errorf("%s: %w: it was applied, and the script returned an error; %s", o.what(), guard.ErrUnknown, lost)
	}
	return fmt.Errorf("%s: %w: the script broke off, and what it had written before stays; %s", o.what(), guard.ErrUnknown, lost)
}

// unreadable is the error of a mark that this version does not know.
func (g *Guard) unreadable(o *operation, found string, lost error) error {
	err := fmt.Errorf("the mark at the key %q cannot be read, it begins with %s; it was written by something else, or by another version", o.mark(), found)
	if lost != nil {
		return fmt.Errorf("%s: %w: %w; and a reply was lost before: %w", o.what(), guard.ErrUnknown, err, lost)
	}
	return fmt.Errorf("%s: %w", o.what(), err)
}

// giveUp is the end without an answer that says it all.
func giveUp(ctx context.Context, o *operation, last, lost error) error {
	if lost == nil {
		return because(ctx, fmt.Errorf("%s: not applied: %w", o.what(), last))
	}
	err := fmt.Errorf("%s: %w: no reply came, and it may still arrive until the next operation of this Guard on the resource; Seal, and then read: %w",
		o.what(), guard.ErrUnknown, lost)
	if !errors.Is(lost, last) {
		err = fmt.Errorf("%w; and at last: %w", err, last)
	}
	return because(ctx, err)
}

// because adds why the context ended, if it has.
func because(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		err = fmt.Errorf("%w (%w)", err, cause)
	}
	if !errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w (%w)", err, ctx.Err())
	}
	return err
}

// pause waits up to d, and returns false if ctx ends before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d/2 + mathrand.N(d/2))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
