package check

import (
	"fmt"

	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
)

// goodWrites are neighbours of plantedWrites in which all is as it should be.
var goodWrites = map[string]func(*story){
	"two hundred writes, which fill several lists": func(s *story) {
		for tok := range int64(70) {
			s.work(tok+1, 3)
		}
	},
	"a paused holder is refused": func(s *story) {
		s.take(7)
		s.seal(7)
		s.look(7)
		base := s.read(7)
		s.t += 3 * sec
		s.work(9, 2)
		_, e := s.write(7, "late", base, history.Stale, false)
		e.Highest = 9
	},
	"a write of which nobody knows came": func(s *story) {
		s.take(7)
		s.seal(7)
		s.write(7, "lost-reply", s.read(7), history.Unknown, true)
		s.leave(7)
		s.work(9, 1)
	},
	"a write of which nobody knows did not come": func(s *story) {
		s.take(7)
		s.seal(7)
		s.write(7, "lost-request", s.read(7), history.Unknown, false)
		s.leave(7)
		s.work(9, 1)
	},
	"a storage has carried out each write once": func(s *story) {
		s.unknown(7, true)
		s.work(9, 2)
		s.journal = []string{"unknown", "op-9-0", "op-9-1"}
	},
	"a killed writer's write came": func(s *story) {
		s.take(7)
		s.seal(7)
		s.write(7, "killed", s.read(7), history.Unknown, true)
		s.events = s.events[:len(s.events)-1]
		s.t += 2 * sec
		s.work(9, 1)
	},
	"a seal of which nobody knows did not come": func(s *story) {
		s.work(7, 1)
		s.take(9)
		s.seal(9).Outcome = history.Unknown
		s.leave(9)
		s.mark = 7
	},
	"a seal of which nobody knows came, and refuses": func(s *story) {
		s.take(7)
		s.seal(7)
		base := s.read(7)
		s.leave(7)
		s.take(9)
		s.seal(9).Outcome = history.Unknown
		s.leave(9)
		_, e := s.write(7, "late", base, history.Stale, false)
		e.Highest = 9
	},
	"a seal that failed for certain changes nothing": func(s *story) {
		s.work(7, 1)
		s.take(9)
		s.seal(9).Outcome = history.Failed
		s.leave(9)
		s.mark = 7
		s.work(11, 1)
	},
	"a killed holder's seal came": func(s *story) {
		s.work(7, 1)
		s.take(9)
		s.mark = 9
	},
	"a refusal on its way tells the mark of then": func(s *story) {
		s.take(7)
		s.seal(7)
		base := s.read(7)
		s.leave(7)
		s.work(8, 0)
		asked, e := s.write(7, "late", base, history.Stale, false)
		from := asked.T
		e.Highest, e.T = 8, from+3*sec
		s.work(9, 1)
		s.t = from + 4*sec
	},
	"a lock does not tell its token at times, and there are no guards": func(s *story) {
		for i, tok := range []int64{7, 0, 9} {
			s.take(tok)
			s.write(tok, fmt.Sprint("op-", i), s.read(tok), history.Applied, true)
			s.leave(tok)
		}
		s.journal = []string{"op-0", "op-1", "op-2"}
	},
}
