package check

import "github.com/fencedlock/fencedlock/integration/faults/internal/history"

// plantedWrites break what the resources promise.
var plantedWrites = []plant{
	{"a late write with a lower token is applied", func(s *story) {
		s.take(7)
		s.seal(7)
		s.look(7)
		base := s.read(7)
		s.t += 3 * sec
		s.work(9, 1)
		s.write(7, "late", base, history.Applied, true)
	}, []string{LostWrite, Marks, RegisterIsLinear}},
	{"a late write goes on top of its successor's", func(s *story) {
		s.take(7)
		s.seal(7)
		s.t += 3 * sec
		s.work(9, 1)
		s.write(7, "late", s.doc, history.Applied, true)
	}, []string{TokenOrder, Marks, RegisterIsLinear}},
	{"an acknowledged write is not there", func(s *story) {
		s.take(7)
		s.seal(7)
		s.write(7, "gone", s.read(7), history.Applied, false)
		s.leave(7)
	}, []string{LostWrite}},
	{"an acknowledged write is not there for the next reader", func(s *story) {
		s.take(7)
		s.seal(7)
		s.write(7, "gone", s.read(7), history.Applied, false)
		s.leave(7)
		s.work(9, 1)
	}, []string{LostWrite, RegisterIsLinear}},
	{"a write is applied twice", func(s *story) {
		s.work(7, 1)
		s.doc.List = append(s.doc.List, s.doc.List[0])
		s.doc.Accounts[0] -= 5
		s.doc.Accounts[2] += 5
	}, []string{WrongWrite}},
	{"a write is half done", func(s *story) {
		s.work(7, 1)
		s.doc.Accounts[0] += 5
	}, []string{TornWrite}},
	{"a reader sees half of a write", func(s *story) {
		s.take(7)
		s.seal(7)
		whole := s.doc
		s.doc.Accounts[0] -= 5
		s.read(7)
		s.doc = whole
		s.leave(7)
	}, []string{TornWrite}},
	{"a reader sees the list of a write with the accounts from before it", func(s *story) {
		s.work(7, 1)
		s.take(9)
		s.seal(9)
		whole := s.doc
		s.doc.Accounts = history.NewDoc().Accounts
		s.read(9)
		s.doc = whole
		s.leave(9)
	}, []string{TornWrite}},
	{"a reader sees a write that nobody made", func(s *story) {
		s.take(7)
		s.seal(7)
		whole := s.doc
		s.doc.List = []string{"ghost"}
		s.read(7)
		s.doc = whole
		s.leave(7)
	}, []string{WrongWrite, RegisterIsLinear}},
	{"a write that failed for certain is there", func(s *story) {
		s.take(7)
		s.seal(7)
		s.write(7, "failed", s.read(7), history.Failed, true)
		s.leave(7)
	}, []string{WrongWrite}},
	{"a write that was refused is there", func(s *story) {
		s.work(7, 1)
		s.take(9)
		s.seal(9)
		base := s.read(9)
		s.leave(9)
		_, e := s.write(7, "refused", base, history.Stale, true)
		e.Highest = 9
	}, []string{WrongWrite, RegisterIsLinear}},
	{"a write is there that nobody made", func(s *story) {
		s.work(7, 1)
		s.doc.List = append(s.doc.List, "ghost")
	}, []string{WrongWrite}},
	{"a write is refused for a mark that nobody had", func(s *story) {
		s.take(7)
		s.seal(7)
		_, e := s.write(7, "refused", s.read(7), history.Stale, false)
		e.Highest = 8
		s.leave(7)
	}, []string{Refusals}},
	{"a write is refused for a mark that is not higher", func(s *story) {
		s.take(7)
		s.seal(7)
		_, e := s.write(7, "refused", s.read(7), history.Stale, false)
		e.Highest = 7
		s.leave(7)
	}, []string{Refusals}},
	{"a mark is lower at the end than before", func(s *story) {
		s.work(7, 1)
		s.work(9, 1)
		s.mark = 7
	}, []string{Marks}},
	{"a mark is lost at the end", func(s *story) {
		s.work(7, 1)
		s.mark = 0
	}, []string{Marks}},
	{"a mark is that of no holder at the end", func(s *story) {
		s.work(7, 1)
		s.mark = 1 << 40
	}, []string{Marks}},
	{"a mark falls, and rises again", func(s *story) {
		s.take(7)
		s.seal(7)
		base := s.read(7)
		s.leave(7)
		s.take(8)
		s.seal(8)
		s.leave(8)
		s.work(9, 0)
		_, e := s.write(7, "late", base, history.Stale, false)
		e.Highest = 8
	}, []string{Marks}},
	{"a seal with a lower token is accepted after a refusal has told a higher one", func(s *story) {
		s.take(7)
		s.seal(7)
		base := s.read(7)
		s.leave(7)
		s.take(9)
		_, e := s.write(7, "late", base, history.Stale, false)
		e.Highest = 9
		s.seal(7)
		s.seal(9)
		s.leave(9)
	}, []string{Marks}},
	{"a seal that failed for certain has raised the mark", func(s *story) {
		s.take(7)
		s.seal(7)
		base := s.read(7)
		s.leave(7)
		s.take(9)
		s.seal(9).Outcome = history.Failed
		s.leave(9)
		_, e := s.write(7, "late", base, history.Stale, false)
		e.Highest = 9
		s.mark = 7
	}, []string{Refusals}},
	{"a seal that failed for certain has raised the mark for good", func(s *story) {
		s.take(9)
		s.seal(9).Outcome = history.Failed
		s.leave(9)
	}, []string{Marks}},
	{"a holder that has not sealed has raised the mark", func(s *story) {
		s.work(7, 1)
		s.take(9)
		s.leave(9)
		s.mark = 9
	}, []string{Marks}},
}
