package check

import (
	"maps"
	"slices"
	"testing"

	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
)

// Each promise is broken in a history of its own, and the check that watches it says so. Some are broken for several checks
// at once; no other may complain.
func TestEachPlantedViolationIsFound(t *testing.T) {
	for _, c := range []struct {
		story string
		play  func(*story)
		want  []string
	}{
		{"a late write with a lower token is applied", func(s *story) {
			s.take(7)
			s.seal(7)
			s.look(7)
			base := s.read(7)
			s.t += 3 * sec
			s.work(9, 1)
			s.write(7, "late", base, history.Applied, true)
		}, []string{"kept", "register is linearizable"}},
		{"a late write goes on top of its successor's", func(s *story) {
			s.take(7)
			s.seal(7)
			s.t += 3 * sec
			s.work(9, 1)
			s.write(7, "late", s.doc, history.Applied, true)
		}, []string{"token order", "register is linearizable"}},
		{"an acknowledged write is not there", func(s *story) {
			s.take(7)
			s.seal(7)
			s.write(7, "gone", s.read(7), history.Applied, false)
			s.leave(7)
		}, []string{"kept"}},
		{"an acknowledged write is not there for the next reader", func(s *story) {
			s.take(7)
			s.seal(7)
			s.write(7, "gone", s.read(7), history.Applied, false)
			s.leave(7)
			s.work(9, 1)
		}, []string{"kept", "register is linearizable"}},
		{"a write is applied twice", func(s *story) {
			s.work(7, 1)
			s.doc.List = append(s.doc.List, s.doc.List[0])
			s.doc.Accounts[0] -= 5
			s.doc.Accounts[2] += 5
		}, []string{"kept"}},
		{"a write is half done", func(s *story) {
			s.work(7, 1)
			s.doc.Accounts[0] += 5
		}, []string{"kept"}},
		{"a reader sees half of a write", func(s *story) {
			s.take(7)
			s.seal(7)
			whole := s.doc
			s.doc.Accounts[0] -= 5
			s.read(7)
			s.doc = whole
			s.leave(7)
		}, []string{"kept"}},
		{"a write that failed for certain is there", func(s *story) {
			s.take(7)
			s.seal(7)
			s.write(7, "failed", s.read(7), history.Failed, true)
			s.leave(7)
		}, []string{"kept"}},
		{"a write that was refused is there", func(s *story) {
			s.work(7, 1)
			s.take(9)
			s.seal(9)
			base := s.read(9)
			s.leave(9)
			_, e := s.write(7, "refused", base, history.Stale, true)
			e.Highest = 9
		}, []string{"kept", "register is linearizable"}},
		{"a write is there that nobody made", func(s *story) {
			s.work(7, 1)
			s.doc.List = append(s.doc.List, "ghost")
		}, []string{"kept"}},
		{"a write is refused for a mark that nobody had", func(s *story) {
			s.take(7)
			s.seal(7)
			_, e := s.write(7, "refused", s.read(7), history.Stale, false)
			e.Highest = 8
			s.leave(7)
		}, []string{"refusals"}},
		{"a write is refused for a mark that is not higher", func(s *story) {
			s.take(7)
			s.seal(7)
			_, e := s.write(7, "refused", s.read(7), history.Stale, false)
			e.Highest = 7
			s.leave(7)
		}, []string{"refusals"}},
		{"a token falls", func(s *story) {
			s.take(9)
			s.leave(9)
			s.take(7)
			s.leave(7)
		}, []string{"tokens rise", "lock is linearizable"}},
		{"a token comes twice", func(s *story) {
			s.take(7)
			s.leave(7)
			a, b := *s.ask(7), *s.got(7)
			a.Hold, b.Hold = "other", "other"
			s.events = append(s.events[:len(s.events)-2], a, b)
		}, []string{"tokens rise", "lock is linearizable"}},
		{"two have the lock", func(s *story) {
			s.take(7)
			s.take(9)
			s.look(7)
			s.leave(9)
			s.leave(7)
		}, []string{"trust", "lock is linearizable"}},
		{"a holder believes in its lock after its successor was granted", func(s *story) {
			s.take(7)
			s.t += 2 * sec
			s.work(9, 1)
			s.look(7)
		}, []string{"trust", "lock is linearizable"}},
		{"a pause is no excuse for a look that began after it", func(s *story) {
			s.take(7)
			from := s.t
			s.t += 3 * sec
			s.work(9, 1)
			s.fault("pause", "w7.0", from, s.t)
			s.look(7)
		}, []string{"trust", "lock is linearizable"}},
		{"a key that was deleted is not noticed", func(s *story) {
			s.take(7)
			s.fault(DeleteKey, "token 7", s.t, s.t+1)
			s.work(9, 1)
			s.t += 3 * sec
			s.look(7)
		}, []string{"trust"}},
		{"a waiter is forgotten", func(s *story) {
			s.take(7)
			s.ask(9)
			s.leave(7)
			s.t += 5 * sec
			s.got(9)
			s.leave(9)
		}, []string{"waits"}},
		{"a waiter gives up on a free lock", func(s *story) {
			s.work(7, 1)
			s.ask(9)
			s.t += 10 * sec
			s.add(s.of(9, history.Refused))
		}, []string{"waits"}},
		{"a killed holder's lock is not freed", func(s *story) {
			s.take(7)
			s.ask(9)
			s.t += 7 * sec
			s.got(9)
			s.leave(9)
		}, []string{"waits"}},
		{"a key is left", func(s *story) {
			s.add(history.Event{Kind: history.Over, Name: "key", Err: "/x"})
		}, []string{"left over"}},
		{"a lock is refused when all is calm", func(s *story) {
			s.ask(7)
			e := s.of(7, history.Refused)
			e.Calm = true
			s.add(e)
		}, []string{"calm"}},
	} {
		t.Run(c.story, func(t *testing.T) {
			s := newStory()
			c.play(s)
			found := judged(s)
			want := make(map[string]bool)
			for _, w := range c.want {
				want[w] = true
				if found[w] == 0 {
					t.Errorf("%q did not complain; these did: %v", w, found)
				}
			}
			for f := range found {
				if !want[f] {
					t.Errorf("%q complained, too", f)
				}
			}
		})
	}
}

func TestEveryCheckHasItsPlantedViolation(t *testing.T) {
	// By the names that violations carry, so that a check that nobody has seen complaining is missed here.
	want := []string{"calm", "kept", "left over", "lock is linearizable", "refusals", "register is linearizable", "token order", "tokens rise", "trust", "waits"}
	s := newStory()
	s.take(9)
	s.seal(9)
	base := s.read(9)
	s.t += 3 * sec
	s.take(7)
	s.look(9)
	s.write(9, "lost", base, history.Applied, false)
	s.write(9, "first", base, history.Applied, true)
	s.write(7, "second", s.doc, history.Applied, true)
	_, e := s.write(7, "third", s.doc, history.Stale, false)
	e.Highest = 3
	s.take(11)
	s.look(9)
	s.ask(13)
	s.t += 9 * sec
	r := s.of(13, history.Refused)
	r.Calm = true
	s.add(r)
	s.add(history.Event{Kind: history.Over})
	found := slices.Sorted(maps.Keys(judged(s)))
	if !slices.Equal(found, want) {
		t.Errorf("these complained: %q\nwant: %q", found, want)
	}
}
