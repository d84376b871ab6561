//go:build unix

package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
	"github.com/fencedlock/fencedlock/integration/faults/internal/store"
)

// hold is one call of Lock, and what follows from it.
type hold struct {
	held
	id, name string
	calm     bool
}

// event begins an event about the hold.
func (h hold) event(k history.Kind) history.Event {
	e := history.Event{Kind: k, Hold: h.id, Name: h.name, Calm: h.calm}
	if h.held != nil {
		e.Token = int64(h.Token())
	}
	return e
}

// turn takes one lock, works under it and gives it back.
func (w *worker) turn(name string) {
	calm := w.calm.Load()
	s, err := w.opened()
	if err != nil {
		if calm {
			w.rec.Add(history.Event{Kind: history.Over, Name: "no session when all is calm", Err: err.Error()})
		}
		return
	}
	w.holds++
	h := hold{id: fmt.Sprintf("%s-%d", w.cfg.Who, w.holds), name: name, calm: calm}
	ask := h.event(history.Ask)
	ask.Lease = int64(s.lease())
	w.rec.Add(ask)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	got, err := s.lock(ctx, name)
	if err != nil {
		refused := h.event(history.Refused)
		refused.Err = err.Error()
		w.rec.Add(refused)
		return
	}
	h.held = got
	w.rec.Add(h.event(history.Got))
	w.work(h)
	w.rec.Add(h.event(history.Leave))
	left := h.event(history.Left)
	if err := h.Unlock(); err != nil {
		left.Err = err.Error()
	} else {
		left.OK = true
	}
	w.rec.Add(left)
}

// look asks the hold whether it is still one.
func (w *worker) look(h hold) bool {
	e := h.event(history.Look)
	e.T = history.Now() // before the question: what is true then was true at T
	if err := h.Err(); err != nil {
		e.Err = err.Error()
	} else {
		e.OK = true
	}
	w.rec.Add(e)
	return e.OK
}

// work is the critical section: seal, then read and write, as holders are told to. The contexts of requests do not end
// with the hold: what is on its way cannot be called back, and that is what guards are there for.
func (w *worker) work(h hold) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := w.storeOf(ctx, h.name)
	if err != nil {
		w.read(h, history.Now(), nil, err)
		return
	}
	if w.cfg.Mode == Guarded && !w.seal(ctx, h, s) {
		return
	}
	for range 1 + w.rnd.IntN(mostWrites) {
		if !w.look(h) {
			return
		}
		start := history.Now()
		d, err := s.Read(ctx, h.name)
		w.read(h, start, &d, err)
		if err != nil || !w.look(h) {
			return
		}
		w.stops.at(afterRead, h.name)
		if !w.linger(h) {
			return
		}
		if w.write(ctx, h, s, d) != history.Applied {
			// What is not known to be applied may be at any later time, with this hold's token. The next hold's seal ends
			// that, so the work goes on in another.
			return
		}
	}
}

// linger obeys an order to hold the lock for long: it looks again and again, and returns whether it holds it still.
func (w *worker) linger(h hold) bool {
	tag, ordered := w.stops.take(lingering, h.name)
	if !ordered {
		return true
	}
	w.self.Say("stopping %s", tag)
	for end := time.Now().Add(longestHold); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if !w.look(h) {
			return false
		}
	}
	return true
}

func (w *worker) seal(ctx context.Context, h hold, s store.Store) bool {
	e := h.event(history.Seal)
	e.Start = history.Now()
	err := s.Seal(ctx, h.name, h.Token())
	w.finishWrite(e, err)
	return err == nil
}

func (w *worker) read(h hold, start int64, d *history.Doc, err error) {
	e := h.event(history.Read)
	e.Start = start
	if err != nil {
		e.Err = err.Error()
	} else {
		e.Base = d.Base()
	}
	w.rec.Add(e)
}

func (w *worker) write(ctx context.Context, h hold, s store.Store, d history.Doc) history.Outcome {
	w.writes++
	e := h.event(history.Write)
	e.Op = fmt.Sprintf("%s:%d", w.cfg.Who, w.writes)
	from := w.rnd.IntN(history.Accounts)
	c := history.Change{From: from, To: (from + 1 + w.rnd.IntN(history.Accounts-1)) % history.Accounts, Amount: 1 + w.rnd.IntN(20)}
	next, dropped := d.Apply(e.Op, c)
	e.Base, e.Change, e.Dropped = d.Base(), &c, dropped
	w.rec.Add(e)
	if w.rnd.IntN(impatient) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, shortly)
		defer cancel()
	}
	err := s.Write(ctx, h.name, h.Token(), store.Write{Doc: next, Change: c, Inside: func() { w.stops.at(inside, h.name) }})
	done := h.event(history.Wrote)
	done.Op = e.Op
	return w.finishWrite(done, err)
}

func (w *worker) finishWrite(e history.Event, err error) history.Outcome {
	var highest guard.Token
	e.Outcome, highest = store.OutcomeOf(err)
	e.Highest = int64(highest)
	if err != nil {
		e.Err = err.Error()
	}
	e.T = 0
	w.rec.Add(e)
	return e.Outcome
}
