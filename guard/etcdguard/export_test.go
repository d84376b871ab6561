package etcdguard

import "time"

// Places is how many resources the Guard keeps something of.
func (g *Guard) Places() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.places)
}

// Age makes what the Guard has seen as old as if d had passed.
func (g *Guard) Age(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.places {
		p.at = p.at.Add(-d)
	}
}
