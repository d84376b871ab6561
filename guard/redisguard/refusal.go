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

// What Redis answers when it has not begun to run a script, or when the script's first write was refused. They are errors
// of the plant and say nothing about tokens. What is not here, such as the errors of a proxy, proves nothing.
var (
	// A failover, the loading of a snapshot, slots that move.
	transientCodes = []string{"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK", "NOREPLICAS", "BUSY",
		"ERR max number of clients reached"}
	lastingCodes = []string{"NOAUTH", "WRONGPASS", "NOPERM", "CROSSSLOT", "OOM", "MISCONF", "DENIED", "NOSCRIPT", "ERR Error compiling script",
		"ERR Protocol error:"} // an argument that is longer than proto-max-bulk-len
)

// isRefusal tells whether err is an answer of Redis that proves that the request was not carried out.
func isRefusal(err error) bool {
	var answer redis.Error
	if !errors.As(err, &answer) {
		return false
	}
	text := answer.Error()
	return isTransient(text) || redis.IsReadOnlyError(err) || slices.ContainsFunc(lastingCodes, begins(text))
}

// refused makes a *refusal of the error of what was not applied. What Redis has not answered can be otherwise a moment
// later, but for the end of the context or of the client.
func refused(err error) *refusal {
	var answer redis.Error
	if errors.As(err, &answer) {
		return &refusal{err, isTransient(answer.Error()) || redis.IsReadOnlyError(err)}
	}
	return &refusal{err, !errors.Is(err, context.Canceled) && !errors.Is(err, redis.ErrClosed)}
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
