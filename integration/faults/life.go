//go:build unix

package main

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/fencedlock/fencedlock/internal/child"
)

// life is one process of a worker, from its start until it is killed.
type life struct {
	s   *stage
	who string // its name in the history
	p   *child.Process

	mu     sync.Mutex
	dead   bool // guarded by mu
	stops  int  // how many faults want it stopped at the moment; guarded by mu
	orders int  // so far; guarded by mu
}

const (
	// obeys is how long a process may take to obey, at most: it may be stopped at the time.
	obeys = 60 * time.Second
	// listens is how long one takes that is not.
	listens = 500 * time.Millisecond
)

// kill ends the process by SIGKILL.
func (l *life) kill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
	l.p.Kill()
}

func (l *life) killed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

// stop stops the process; false: it is dead.
func (l *life) stop() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.dead {
		l.stops++
		l.p.Stop()
	}
	return !l.dead
}

// resume lets it go on, unless another fault wants it stopped, too.
func (l *life) resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stops--
	if !l.dead && l.stops == 0 {
		l.p.Continue()
	}
}

// still tells whether a fault wants it stopped.
func (l *life) still() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stops > 0
}

// stopped tells that the process stops by itself.
func (l *life) stopped() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stops++
}

// send gives the process one order, and returns what it says when it has obeyed; false: it is dead.
func (l *life) send(format string, args ...any) (done string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return "", false
	}
	l.orders++
	l.p.Send(fmt.Sprintf("%d ", l.orders) + fmt.Sprintf(format, args...))
	return fmt.Sprintf("did %d", l.orders), true
}

// order gives one and tells whether it was obeyed within the time. Later it may be none the less.
func (l *life) order(within time.Duration, format string, args ...any) bool {
	done, ok := l.send(format, args...)
	return ok && l.said(done, within)
}

// must gives an order and waits until it is obeyed; false: the process is dead. One that does not obey ends the run.
func (l *life) must(format string, args ...any) bool {
	if l.order(obeys, format, args...) {
		return true
	}
	if !l.killed() && l.s.Context().Err() == nil {
		l.s.Errorf("%s does not obey: "+format, append([]any{l.who}, args...)...)
	}
	return false
}

// said waits until the process has said the line; false: it has not within the time, or is dead.
func (l *life) said(line string, within time.Duration) bool {
	for end := time.Now().Add(within); ; time.Sleep(5 * time.Millisecond) {
		for _, said := range l.p.Lines() {
			if strings.TrimSpace(said) == line {
				return true
			}
		}
		if time.Now().After(end) || l.killed() || l.s.Context().Err() != nil {
			return false
		}
	}
}
