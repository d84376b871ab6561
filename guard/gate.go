package guard

import (
	"context"
	"errors"
	"sync"
)

// Gate guards resources that live inside this process, such as a cache, a device or a connection: it runs one write
// at a time for each resource, and refuses those with a token lower than the highest it has let in. The zero value is
// ready; a Gate must not be copied after first use. All methods are safe for concurrent use.
//
// Its marks live as long as the Gate and are never dropped, a few dozen bytes for each resource. Another process has
// another Gate: what several processes write needs a guard inside the storage.
type Gate struct {
	mu    sync.Mutex
	marks map[string]*gateMark // guarded by mu
}

// gateMark is a resource's mark and its turn.
type gateMark struct {
	turn    chan struct{} // holds one element while somebody writes or seals; a channel, so that waiting can end
	highest Token         // guarded by Gate.mu
}

var _ Sealer = (*Gate)(nil)

// Do runs write if the token is accepted for resource, and returns its error. The check, the raise of the mark and
// write are one step: no other write or Seal of the same resource runs meanwhile. It waits for its turn without limit,
// in no promised order; the check is made when the turn has come.
//
// When the token is refused, as by [Check], write does not run. When write returns an error or panics, the mark stays
// raised: what write has changed until then, only write knows.
//
// A write that is stuck blocks its resource. A write that uses the Gate for its own resource waits for itself for ever.
func (g *Gate) Do(resource string, tok Token, write func() error) error {
	if err := Check(resource, tok, 0); err != nil {
		return err
	}
	if write == nil {
		return errors.New("guard: Gate.Do: write is nil")
	}
	m := g.mark(resource)
	m.turn <- struct{}{}
	defer func() { <-m.turn }()
	if err := g.raise(m, resource, tok); err != nil {
		return err
	}
	return write()
}

// Seal implements [Sealer]. It waits for a write of the same resource that is running; ctx bounds that wait, and the
// mark is unchanged when the context's error is returned.
func (g *Gate) Seal(ctx context.Context, resource string, tok Token) error {
	if err := Check(resource, tok, 0); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	m := g.mark(resource)
	select {
	case m.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-m.turn }()
	return g.raise(m, resource, tok)
}

// Highest implements [Sealer]. It does not wait for writes; the mark of one that is running counts already.
func (g *Gate) Highest(ctx context.Context, resource string) (Token, error) {
	if err := CheckResource(resource); err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.marks[resource]; m != nil {
		return m.highest, nil
	}
	return 0, nil
}

func (g *Gate) mark(resource string) *gateMark {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.marks[resource]
	if m == nil {
		if g.marks == nil {
			g.marks = make(map[string]*gateMark)
		}
		m = &gateMark{turn: make(chan struct{}, 1)}
		g.marks[resource] = m
	}
	return m
}

// raise is called by whoever has the turn.
func (g *Gate) raise(m *gateMark, resource string, tok Token) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := Check(resource, tok, m.highest); err != nil {
		return err
	}
	m.highest = tok
	return nil
}
