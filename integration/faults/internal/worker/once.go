//go:build unix

package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
)

// OncePrefix begins the names of locks that a session takes once and never again. On a name that it took again it would
// find what it has left there itself, and delete it, and nobody would ever see it.
const OncePrefix = "once-"

// OncePatience is how long anybody waits for one of these locks or has it, at most, unless a fault is about.
const OncePatience = time.Second

const (
	// One turn of so many is followed by such a lock.
	seldom = 3
	// The names change that often, and all workers take the same.
	onceEvery = int64(time.Second)
)

// OnceAge is how old the name is; ok tells that it is such a name.
func OnceAge(name string) (age time.Duration, ok bool) {
	text, ok := strings.CutPrefix(name, OncePrefix)
	if !ok {
		return 0, false
	}
	digits, _, _ := strings.Cut(text, "-")
	n, err := strconv.ParseInt(digits, 10, 64)
	return time.Duration(history.Now() - n*onceEvery), err == nil
}

// OnceNow is the name of now.
func OnceNow() string { return fmt.Sprint(OncePrefix, history.Now()/onceEvery) }

// once takes a lock and gives it back, or gives up after a moment. Its name is used once by this session, and by all
// workers about the same time, unless a fault is aimed at it.
func (w *worker) once() {
	tag, ordered := w.stops.take(takingOnce, "")
	name := OnceNow()
	switch {
	case ordered:
		name += "-" + tag
	case name == w.lastOnce || w.rnd.IntN(seldom) > 0:
		return
	}
	w.lastOnce = name
	s, err := w.opened()
	if err != nil {
		return
	}
	limit := OncePatience
	if !ordered {
		limit = rand.N(limit / 5)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	h, err := s.lock(ctx, name)
	if err != nil {
		return // this must leave nothing behind
	}
	time.Sleep(rand.N(60 * time.Millisecond))
	_ = h.Unlock() // as must this
}
