package check

import "github.com/fencedlock/fencedlock/integration/faults/internal/history"

// plantedJournals break what only a storage shows that keeps a journal: to the list no harm was done.
var plantedJournals = []plant{
	{"a write is carried out twice", func(s *story) {
		s.work(7, 1)
		s.journal = []string{"op-7-0", "op-7-0"}
	}, []string{DoubledWrite}},
	{"a write of which nobody knows is carried out three times", func(s *story) {
		s.unknown(7, true)
		s.work(9, 1)
		s.journal = []string{"unknown", "unknown", "op-9-0", "unknown"}
	}, []string{DoubledWrite}},
	{"a write is carried out twice, and moves the money twice", func(s *story) {
		s.unknown(7, true)
		s.doc.Accounts = history.Change{From: 0, To: 2, Amount: 5}.Move(s.doc.Accounts)
		s.work(9, 1)
		s.journal = []string{"unknown", "unknown", "op-9-0"}
	}, []string{DoubledWrite, TornWrite}},
	{"a write of which nobody knows is carried out, and overwritten", func(s *story) {
		s.unknown(7, false)
		s.work(9, 1)
		s.journal = []string{"unknown", "op-9-0"}
	}, []string{Overwritten}},
	{"a write of which nobody knows is carried out after its successor's, and overwritten", func(s *story) {
		s.unknown(7, false)
		s.work(9, 2)
		s.journal = []string{"op-9-0", "unknown", "op-9-1"}
	}, []string{Overwritten, TokenOrder}},
	{"a write that failed for certain is carried out, and overwritten", func(s *story) {
		s.take(7)
		s.seal(7)
		s.write(7, "failed", s.read(7), history.Failed, false)
		s.leave(7)
		s.work(9, 1)
		s.journal = []string{"failed", "op-9-0"}
	}, []string{WrongWrite}},
	{"a write that was refused is carried out, and overwritten", func(s *story) {
		s.take(7)
		s.seal(7)
		base := s.read(7)
		s.t += 3 * sec
		s.work(9, 1)
		_, e := s.write(7, "refused", base, history.Stale, false)
		e.Highest = 9
		s.journal = []string{"op-9-0", "refused"}
	}, []string{WrongWrite, TokenOrder}},
	{"a write is carried out that nobody made", func(s *story) {
		s.work(7, 1)
		s.journal = []string{"op-7-0", "ghost"}
	}, []string{WrongWrite}},
	{"a write is in the list alone", func(s *story) {
		s.work(7, 2)
		s.journal = []string{"op-7-1"}
	}, []string{TornWrite}},
	{"nothing is in the journal", func(s *story) {
		s.work(7, 1)
		s.journal = []string{}
	}, []string{TornWrite}},
}

// unknown is a hold with a write whose outcome its writer does not know.
func (s *story) unknown(tok int64, lands bool) {
	s.take(tok)
	s.seal(tok)
	s.write(tok, "unknown", s.read(tok), history.Unknown, lands)
	s.leave(tok)
}
