//go:build unix

package worker

import (
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/fencedlock/fencedlock/internal/child"
)

// The places where a worker can be told to stop.
const (
	afterRead = "after-read" // between reading and writing
	inside    = "inside"     // in the middle of the guarded step
)

// pause is an order to stop at a place. The process stops itself there, all of it, as SIGSTOP from outside would do at a
// moment that cannot be hit from outside.
type pause struct {
	self *child.Self

	mu    sync.Mutex
	place string // "": no order; guarded by mu
	tag   string // of the order; guarded by mu
}

func (p *pause) order(place, tag string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.place, p.tag = place, tag
}

// at obeys an order that is for this place.
func (p *pause) at(place string) {
	p.mu.Lock()
	tag := p.tag
	ordered := p.place == place
	if ordered {
		p.place = ""
	}
	p.mu.Unlock()
	if !ordered {
		return
	}
	p.self.Say("stopping %s", tag)
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) // of oneself, which is always allowed
	// Another thread may have got the signal, and this one would run on for a moment.
	time.Sleep(20 * time.Millisecond)
}
