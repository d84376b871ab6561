package redisguard

// SetNumber lets the next operation have the number n + 1.
func (g *Guard) SetNumber(n int64) { g.numbers.Store(n) }

// Turns is at how many resources somebody is.
func (g *Guard) Turns() int {
	g.turns.mu.Lock()
	defer g.turns.mu.Unlock()
	return len(g.turns.m)
}
