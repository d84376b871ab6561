package etcdguard

import (
	"context"
	"fmt"
	"time"

	"github.com/fencedlock/fencedlock/guard"
)

// place is what a Guard keeps of one resource: the turn of its writes, and the mark as it was seen last, so that a write
// takes one round trip.
type place struct {
	turn  chan struct{} // holds one element while somebody writes; a channel, so that waiting can end
	users int           // those who have the turn or wait for it; guarded by Guard.mu

	// The rest belongs to whoever has the turn.
	seen    state
	at      time.Time   // when it was seen; zero: never
	highest guard.Token // of all that was seen: a restored etcd may have forgotten it
}

// maxPlaces bounds what a Guard keeps of resources that nobody writes at the moment.
const maxPlaces = 1024

// enter waits for the turn at resource. leave must follow.
func (g *Guard) enter(ctx context.Context, resource string) (*place, error) {
	g.mu.Lock()
	p := g.places[resource]
	if p == nil {
		g.makeRoom()
		p = &place{turn: make(chan struct{}, 1)}
		g.places[resource] = p
	}
	p.users++
	g.mu.Unlock()
	select {
	case p.turn <- struct{}{}:
		return p, nil
	case <-ctx.Done():
		g.giveUp(p)
		return nil, because(ctx, fmt.Errorf("etcdguard: waiting for an earlier write to %q, nothing was sent", resource))
	}
}

func (g *Guard) leave(p *place) {
	<-p.turn
	g.giveUp(p)
}

func (g *Guard) giveUp(p *place) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p.users--
}

// makeRoom forgets any resource that nobody writes: its next write begins with a read. g.mu is held.
func (g *Guard) makeRoom() {
	for resource, p := range g.places {
		if len(g.places) < maxPlaces {
			return
		}
		if p.users == 0 {
			delete(g.places, resource)
		}
	}
}

// learn keeps the mark as it was seen just now.
func (p *place) learn(s state) {
	p.seen, p.at = s, time.Now()
	p.highest = max(p.highest, s.token)
}

// freshness is how long a mark that was seen is worth a try. An older one would only cost a round trip, but the more Guards
// have written since, the less is known about a transaction that compared with it.
const freshness = 10 * time.Second

// usable tells whether a write with tok may start from what was seen. A mark that is higher is read again, to report what
// it is now.
func (p *place) usable(tok guard.Token) bool {
	return !p.at.IsZero() && time.Since(p.at) < freshness && p.highest <= tok
}
