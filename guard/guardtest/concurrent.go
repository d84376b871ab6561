package guardtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fencedlock/fencedlock/guard"
)

// checkFirstUse: two holders start at a resource that has no mark to lock or to compare with yet.
func checkFirstUse(ctx context.Context, s Store) error {
	var f findings
	for i := range 25 {
		r := fmt.Sprintf("first use %d", i)
		var wg sync.WaitGroup
		var err7, err9 error
		start := make(chan struct{})
		wg.Go(func() { <-start; err7 = s.busy(func() error { return s.Write(ctx, r, 7, "7") }) })
		wg.Go(func() { <-start; err9 = s.busy(func() error { return s.Write(ctx, r, 9, "9") }) })
		close(start)
		wg.Wait()
		f.accepted(fmt.Sprintf("%.20q: token 9", r), err9)
		if err7 != nil {
			f.stale(fmt.Sprintf("%.20q: token 7", r), err7, r, 7, 9)
		}
		value, err := s.Read(ctx, r)
		f.accepted("Read", err)
		highest, err := s.Highest(ctx, r)
		f.accepted("Highest", err)
		if value == "7" || highest == 7 {
			f.add("%.20q: two writers met on an unmarked resource, and the lower token won: 7 over 9; content %.20q, mark %d", r, value, int64(highest))
			continue
		}
		f.holds(ctx, s, r, "9", 9)
	}
	return f.err()
}

// checkConcurrentWriters: many writers with rising tokens and some late ones; the whole history must be one that a
// guard allows.
func checkConcurrentWriters(ctx context.Context, s Store) error {
	const r, writers, rounds = "concurrent", 8, 20
	var (
		h    history
		next atomic.Int64
		wg   sync.WaitGroup
	)
	for w := range writers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 1))
			for i := range rounds {
				tok := guard.Token(next.Add(1))
				if rnd.IntN(3) == 0 { // a late one
					tok = max(1, tok-guard.Token(rnd.IntN(2*writers)))
				}
				value := fmt.Sprintf("%d by %d in %d", tok, w, i)
				h.record(func(o *op) {
					o.kind, o.tok, o.value = write, tok, value
					o.err = s.Write(ctx, r, tok, value)
					o.busy = s.isBusy(o.err)
				})
				h.record(func(o *op) {
					o.kind = read
					o.value, o.err = s.Read(ctx, r)
					o.tok, o.err = tokenOf(o.value, o.err)
				})
				h.record(func(o *op) {
					o.kind = mark
					o.tok, o.err = s.Highest(ctx, r)
				})
			}
		})
	}
	wg.Wait()
	f := h.verify()

	// At rest, mark and content belong to the highest write that was accepted; above the crowd, one is always accepted.
	last := guard.Token(next.Load() + 1)
	f.accepted("a write above all", s.busy(func() error { return s.Write(ctx, r, last, "last") }))
	f.holds(ctx, s, r, "last", last)
	return f.err()
}

func tokenOf(value string, err error) (guard.Token, error) {
	if err != nil || value == "" {
		return 0, err
	}
	digits, _, _ := strings.Cut(value, " ")
	return guard.ParseToken(digits)
}

type kind string

const (
	write kind = "Write"
	read  kind = "Read"
	mark  kind = "Highest"
)

// op is one call with its beginning and end on a clock that only counts.
type op struct {
	kind       kind
	tok        guard.Token // asked for by a write, seen by the others
	value      string
	err        error
	busy       bool
	start, end int64
}

// history is what happened, from outside. Two calls that overlap may have been carried out in either order; one that
// ended before another began came first.
type history struct {
	clock atomic.Int64
	mu    sync.Mutex
	ops   []op // guarded by mu
}

func (h *history) record(do func(*op)) {
	o := op{start: h.clock.Add(1)}
	do(&o)
	o.end = h.clock.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, o)
}

// verify reports each call that no order of the calls explains.
func (h *history) verify() findings {
	var f findings
	refused := make(map[string]bool)
	written := map[string]bool{"": true}
	accepted := 0
	for _, o := range h.ops {
		if o.kind == write {
			written[o.value] = true
			refused[o.value] = o.err != nil && !errors.Is(o.err, guard.ErrUnknown)
			if o.err == nil {
				accepted++
			}
		}
	}
	if accepted == 0 {
		f.add("no write was accepted")
	}
	for _, o := range h.ops {
		var stale *guard.StaleError
		// What had been seen for certain before this call began, and what can have been tried before it ended.
		var markFloor, dataFloor, ceiling guard.Token
		for _, p := range h.ops {
			if p.kind == write && p.start < o.end {
				ceiling = max(ceiling, p.tok)
			}
			if p.end < o.start && p.err == nil {
				markFloor = max(markFloor, p.tok)
				if p.kind != mark {
					dataFloor = max(dataFloor, p.tok)
				}
			}
		}
		switch {
		case o.kind == write && o.err == nil:
			if o.tok < markFloor {
				f.add("a write with token %d was accepted after %d had been seen", int64(o.tok), int64(markFloor))
			}
		case o.kind == write && errors.As(o.err, &stale):
			if stale.Highest <= o.tok || stale.Highest < markFloor || stale.Highest > ceiling {
				f.add("a write with token %d was refused by a mark of %d; it was between %d and %d", int64(o.tok), int64(stale.Highest), int64(markFloor), int64(ceiling))
			}
		case o.kind == write && (o.busy || errors.Is(o.err, guard.ErrUnknown)):
		case o.err != nil:
			f.add("%s: %w", o.kind, o.err)
		case o.kind == read:
			if o.tok < dataFloor {
				f.add("the content went back to token %d after %d", int64(o.tok), int64(dataFloor))
			}
			if refused[o.value] || !written[o.value] {
				f.add("the content became %.30q, which was refused or never written", o.value)
			}
		case o.kind == mark:
			if o.tok < markFloor || o.tok > ceiling {
				f.add("Highest = %d; it was between %d and %d", int64(o.tok), int64(markFloor), int64(ceiling))
			}
		}
	}
	return f
}
