//go:build unix

package worker

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/fencedlock/fencedlock/internal/child"
)

// The places where a worker can be told to stop.
const (
	afterRead = "after-read" // between reading and writing
	inside    = "inside"     // in the middle of the guarded step
	lingering = "lingering"  // after reading, but there it goes on looking at its hold
)

// What it can be told to do beside.
const (
	takingOnce = "once"    // take a lock on a name that is not used again
	reopening  = "session" // close the session and open another
)

// errCalledAway is why a worker gives up waiting for a lock.
var errCalledAway = errors.New("worker: an order came")

// stop is an order to stop once at a place, when a resource is worked on; for what is no place there is no resource.
type stop struct{ tag, place, resource string }

// stops are those that were not obeyed yet. The process stops itself, all of it, as SIGSTOP from outside would do at a
// moment that cannot be hit from outside.
type stops struct {
	self *child.Self

	mu      sync.Mutex
	orders  []stop                  // guarded by mu
	waits   string                  // the lock that is waited for at the moment, if callOff is set; guarded by mu
	callOff context.CancelCauseFunc // guarded by mu
}

// add gives an order. Who waits for a lock that no order is about is called away.
func (p *stops) add(s stop) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.orders = append(p.orders, s)
	if p.callOff != nil && !slices.ContainsFunc(p.orders, func(s stop) bool { return s.resource == p.waits }) {
		p.callOff(errCalledAway)
	}
}

// waiting returns the context for waiting for a lock. done ends it.
func (p *stops) waiting(ctx context.Context, resource string) (_ context.Context, done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	p.waits, p.callOff = resource, cancel
	return ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.callOff = nil
		cancel(nil)
	}
}

// forgetAll drops all orders.
func (p *stops) forgetAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.orders = nil
}

func (p *stops) forget(tag string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.orders = slices.DeleteFunc(p.orders, func(s stop) bool { return s.tag == tag })
}

// wanted returns the resource that the next order is about, "" if there is none.
func (p *stops) wanted() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.orders {
		if s.resource != "" {
			return s.resource
		}
	}
	return ""
}

// at obeys an order that is for this place.
func (p *stops) at(place, resource string) {
	tag, ordered := p.take(place, resource)
	if !ordered {
		return
	}
	p.self.Say("stopping %s", tag)
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) // of oneself, which is always allowed
	// Another thread may have got the signal, and this one would run on for a moment.
	time.Sleep(20 * time.Millisecond)
}

// take returns the tag of an order for this place, which is obeyed with that.
func (p *stops) take(place, resource string) (tag string, ordered bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.orders, func(s stop) bool { return s.place == place && s.resource == resource })
	if i < 0 {
		return "", false
	}
	tag = p.orders[i].tag
	p.orders = slices.Delete(p.orders, i, i+1)
	return tag, true
}
