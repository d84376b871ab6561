package check

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	name = "account"
	sec  = int64(time.Second)
)

// story is a history in the making, of one resource whose state it plays.
type story struct {
	events []history.Event
	doc    history.Doc
	mark   int64
	t      int64

	journal []string // nil: none is kept
}

func newStory() *story { return &story{doc: history.NewDoc(), t: 100 * sec} }

// add appends an event a millisecond later, and returns it for changes.
func (s *story) add(e history.Event) *history.Event {
	s.t += int64(time.Millisecond)
	if e.T == 0 {
		e.T = s.t
	}
	if e.Name == "" {
		e.Name = name
	}
	s.events = append(s.events, e)
	return &s.events[len(s.events)-1]
}

// ask, got, seal and so on are what a worker does in the hold of that token; the hold's name is the token's.
func (s *story) of(tok int64, k history.Kind) history.Event {
	return history.Event{Who: fmt.Sprintf("w%d.0", tok), Kind: k, Hold: fmt.Sprint("hold-", tok), Token: tok, Lease: 1000 + tok}
}

func (s *story) ask(tok int64) *history.Event { return s.add(s.of(tok, history.Ask)) }
func (s *story) got(tok int64) *history.Event { return s.add(s.of(tok, history.Got)) }

// refuse ends the call of that token's hold, and gaveUp does since its worker waits no longer.
func (s *story) refuse(tok int64, err string) *history.Event {
	e := s.of(tok, history.Refused)
	e.Token, e.Err = 0, err
	return s.add(e)
}

func (s *story) gaveUp(tok int64) { s.refuse(tok, "lock: context deadline exceeded") }

// lose is a look that finds the hold over.
func (s *story) lose(tok int64) {
	e := s.of(tok, history.Look)
	e.Err = "lost"
	s.add(e)
}

func (s *story) take(tok int64) {
	s.ask(tok)
	s.got(tok)
}

func (s *story) look(tok int64) *history.Event {
	e := s.of(tok, history.Look)
	e.OK = true
	return s.add(e)
}

func (s *story) seal(tok int64) *history.Event {
	e := s.of(tok, history.Seal)
	e.Outcome, e.Start = history.Applied, s.t+1
	s.mark = max(s.mark, tok)
	return s.add(e)
}

// read returns what is there.
func (s *story) read(tok int64) history.Doc {
	e := s.of(tok, history.Read)
	e.Start, e.Base = s.t, s.doc.Base()
	s.add(e)
	return s.doc
}

// write puts a change of base in place of what is there, if lands.
func (s *story) write(tok int64, op string, base history.Doc, o history.Outcome, lands bool) (asked, ended *history.Event) {
	c := history.Change{From: 0, To: 1 + int(tok)%3, Amount: 5}
	next, dropped := base.Apply(op, c)
	e := s.of(tok, history.Write)
	e.Op, e.Base, e.Change, e.Dropped = op, base.Base(), &c, dropped
	asked = s.add(e)
	if lands {
		s.doc = next
	}
	e = s.of(tok, history.Wrote)
	e.Op, e.Outcome = op, o
	ended = s.add(e)
	return asked, ended
}

func (s *story) leave(tok int64) {
	s.add(s.of(tok, history.Leave))
	e := s.of(tok, history.Left)
	e.OK = true
	s.add(e)
}

// work is one good hold with n writes.
func (s *story) work(tok int64, n int) {
	s.take(tok)
	s.seal(tok)
	for i := range n {
		s.look(tok)
		s.write(tok, fmt.Sprintf("op-%d-%d", tok, i), s.read(tok), history.Applied, true)
	}
	s.leave(tok)
}

func (s *story) fault(kind, target string, from, to int64) {
	id := fmt.Sprint("fault-", len(s.events))
	s.events = append(s.events, history.Event{T: from, Who: "nemesis", Kind: history.Begin, Op: id, Fault: kind, Target: target},
		history.Event{T: to, Who: "nemesis", Kind: history.End, Op: id, Fault: kind, Target: target})
}

// end adds what the resource holds.
func (s *story) end() []history.Event {
	d := s.doc
	s.add(history.Event{Kind: history.Final, Doc: &d, Journal: s.journal, Token: s.mark})
	return s.events
}

func judged(s *story) map[string]int {
	found := make(map[string]int)
	for _, v := range All(s.end(), Options{TTL: 2 * time.Second}) {
		found[v.Check]++
	}
	return found
}
