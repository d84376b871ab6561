package redisguard

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// refusal is the error of an attempt that was certainly not applied.
type refusal struct {
	err       error
	transient bool // it may be otherwise a moment later
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// What Redis answers when it has not begun to run a script, or when the script's first write was refused. They are errors of the plant and say nothing about tokens. What is not here, such as the
// errors of a proxy, proves nothing. NOSCRIPT is not here because it is answered at once.
var (
	// A failover, the loading of a snapshot, slots that move.
	transientCodes = []string{"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK", "NOREPLICAS", "BUSY",
		"ERR max number of clients reached"}
	lastingCodes = []string{"NOAUTH", "WRONGPASS", "NOPERM", "CROSSSLOT", "OOM", "MISCONF", "DENIED", "ERR Error compiling script"}
)

// classify turns the error of an attempt into a *refusal if it proves that nothing was applied.
func classify(err error, sent bool) error {
	if !sent {
		lasting := errors.Is(err, context.Canceled) || errors.Is(err, redis.ErrClosed)
		return &refusal{err, !lasting}
	}
	var answer redis.Error
	if !errors.As(err, &answer) {
		return err // a lost reply, or a request that may still be under way
	}
	switch text := answer.Error(); {
	case isTransient(text), redis.IsReadOnlyError(err):
		return &refusal{err, true}
	case slices.ContainsFunc(lastingCodes, begins(text)):
		return &refusal{err, false}
	}
	return err
}

func isTransient(text string) bool { return slices.ContainsFunc(transientCodes, begins(text)) }

func begins(text string) func(code string) bool {
	return func(code string) bool { return text == code || strings.HasPrefix(text, code+" ") }
}

// scriptError is an error reply that came inside of another reply; go-redis's HasErrorPrefix knows it.
type scriptError string

func (e scriptError) Error() string { return string(e) }

// RedisError marks it as an answer of the server.
func (scriptError) RedisError() {}
