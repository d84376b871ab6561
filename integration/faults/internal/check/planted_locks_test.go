package check

import "github.com/fencedlock/fencedlock/integration/faults/internal/history"

// plantedLocks break what the locks promise, and the end of a run.
var plantedLocks = []plant{
	{"a token falls", func(s *story) {
		s.take(9)
		s.leave(9)
		s.take(7)
		s.leave(7)
	}, []string{TokensRise, Trust, LockIsLinear}},
	{"a token comes twice", func(s *story) {
		s.take(7)
		s.leave(7)
		a, b := *s.ask(7), *s.got(7)
		a.Hold, b.Hold = "other", "other"
		s.events = append(s.events[:len(s.events)-2], a, b)
	}, []string{TokensRise, LockIsLinear}},
	{"two have the lock", func(s *story) {
		s.take(7)
		s.take(9)
		s.look(7)
		s.leave(9)
		s.leave(7)
	}, []string{Trust, LockIsLinear}},
	{"a holder believes in its lock after its successor was granted", func(s *story) {
		s.take(7)
		s.t += 2 * sec
		s.work(9, 1)
		s.look(7)
	}, []string{Trust, LockIsLinear}},
	{"a pause is no excuse for a look that began after it", func(s *story) {
		s.take(7)
		from := s.t
		s.t += 3 * sec
		s.work(9, 1)
		s.fault("pause", "w7.0", from, s.t)
		s.look(7)
	}, []string{Trust, LockIsLinear}},
	{"a key that was deleted is not noticed", func(s *story) {
		s.take(7)
		s.fault(DeleteKey, "token 7", s.t, s.t+1)
		s.work(9, 1)
		s.t += 3 * sec
		s.look(7)
	}, []string{Trust}},
	{"a key that was deleted is not noticed, and nobody else wants it", func(s *story) {
		s.take(7)
		s.fault(DeleteKey, "token 7", s.t, s.t+1)
		s.t += 3 * sec
		s.look(7)
	}, []string{Trust}},
	{"nor is a lease that was revoked", func(s *story) {
		s.take(7)
		s.fault(Revoke, "lease 1007", s.t, s.t+1)
		s.t += 3 * sec
		s.look(7)
	}, []string{Trust}},
	{"a key that was deleted is not noticed after a pause either", func(s *story) {
		s.take(7)
		s.fault("pause", "w7.0", s.t, s.t+sec)
		s.fault(DeleteKey, "token 7", s.t, s.t+1)
		s.t += 4 * sec
		s.look(7)
	}, []string{Trust}},
	{"a release is a success though a successor has had the lock", func(s *story) {
		s.take(7)
		s.look(7)
		s.t += 3 * sec
		s.work(9, 2)
		s.leave(7)
	}, []string{Trust, LockIsLinear}},
	{"a lock is refused, and nothing is to blame", func(s *story) {
		s.work(5, 1)
		s.fault("cut-both", "w7.0", s.t, s.t+sec)
		s.t += 5 * sec
		s.ask(7)
		s.refuse(7, "some error")
	}, []string{Losses}},
	{"a lock is lost, and nothing is to blame", func(s *story) {
		s.fault("leader-killed", "member 0", s.t, s.t+sec)
		s.t += 5 * sec
		s.take(7)
		s.look(7)
		s.lose(7)
	}, []string{Losses}},
	{"a release fails, and only somebody else was cut off", func(s *story) {
		s.take(7)
		s.fault("cut-both", "w9.0", s.t, s.t+sec)
		s.add(s.of(7, history.Leave))
		s.add(s.of(7, history.Left)).Err = "unconfirmed"
	}, []string{Losses}},
	{"a session is lost, and only somebody else's lease was revoked", func(s *story) {
		s.work(7, 1)
		s.fault(Revoke, "lease 1009", s.t, s.t+1)
		s.add(s.of(7, history.Lost)).Hold = ""
	}, []string{Losses}},
	{"a lock is lost, and only somebody else's key was deleted", func(s *story) {
		s.work(5, 1)
		s.take(7)
		s.fault(DeleteKey, "token 5", s.t, s.t+1)
		s.lose(7)
	}, []string{Losses}},
	{"a lock is refused to a waiter, and only the holder's key was deleted", func(s *story) {
		s.take(5)
		s.ask(7)
		s.fault(DeleteKey, "token 5", s.t, s.t+1)
		s.lose(5)
		s.refuse(7, "some error")
	}, []string{Losses}},
	{"a lock is refused to a waiter after others who asked later, and nothing is to blame", func(s *story) {
		s.ask(7)
		s.t += 2 * sec
		s.work(9, 1)
		s.refuse(7, "some error")
	}, []string{Losses}},
	{"a lost hold's lock is not freed", func(s *story) {
		s.take(7)
		s.ask(9)
		s.fault("cut-both", "w7.0", s.t, s.t+sec)
		s.lose(7)
		s.add(s.of(7, history.Left)).Err = "lost"
		s.t += 7 * sec
		s.got(9)
		s.leave(9)
	}, []string{Waits}},
	{"a waiter is forgotten while one behind it is cut off", func(s *story) {
		s.take(7)
		s.ask(9)
		s.ask(11)
		s.fault("cut-both", "w11.0", s.t, s.t+6*sec)
		s.leave(7)
		s.t += 5 * sec
		s.got(9)
		s.leave(9)
		s.got(11)
		s.leave(11)
	}, []string{Waits}},
	{"a pause long ago is no excuse for a token that falls", func(s *story) {
		s.fault("pause", "w7.0", s.t, s.t+sec)
		s.t += 2 * sec
		s.take(9)
		s.leave(9)
		s.take(7)
		s.leave(7)
	}, []string{TokensRise, Trust, LockIsLinear}},
	{"a waiter is forgotten", func(s *story) {
		s.take(7)
		s.ask(9)
		s.leave(7)
		s.t += 5 * sec
		s.got(9)
		s.leave(9)
	}, []string{Waits}},
	{"a waiter gives up on a free lock", func(s *story) {
		s.work(7, 1)
		s.ask(9)
		s.t += 10 * sec
		s.gaveUp(9)
	}, []string{Waits}},
	{"a killed holder's lock is not freed", func(s *story) {
		s.take(7)
		s.ask(9)
		s.fault(Kill, "w7.0", s.t, s.t+sec)
		s.t += 7 * sec
		s.got(9)
		s.leave(9)
	}, []string{Waits}},
	{"a waiter gets a free lock late, while the keys of other locks are deleted", func(s *story) {
		s.work(7, 1)
		s.fault(DeleteKey, "token 7", s.t, s.t+1)
		s.ask(9)
		s.t += 3 * sec
		s.fault(DeleteKey, "token 4711", s.t, s.t+1)
		s.fault(Revoke, "lease 4711", s.t, s.t+1)
		s.t += 3 * sec
		s.got(9)
		s.leave(9)
	}, []string{Waits}},
	{"a waiter is forgotten before a fault comes", func(s *story) {
		s.work(7, 1)
		s.ask(9)
		s.t += 5 * sec
		s.fault("leader-killed", "member 0", s.t, s.t+3*sec)
		s.t += sec
		s.got(9)
		s.leave(9)
	}, []string{Waits}},
	{"a lock that a key was left on is given up by all who want it", func(s *story) {
		s.work(7, 1)
		for tok := range int64(5) {
			s.ask(9 + tok)
		}
		s.t += 10 * sec
		for tok := range int64(5) {
			s.gaveUp(9 + tok)
		}
	}, []string{Waits}},
	{"a waiter waits for ever", func(s *story) {
		s.work(7, 1)
		s.ask(9)
		s.t += 9 * sec
	}, []string{Waits}},
	{"a waiter gives up while others come and go", func(s *story) {
		s.ask(7)
		for tok := range int64(10) {
			s.t += sec
			s.work(9+tok, 1)
		}
		s.gaveUp(7)
	}, []string{FIFO}},
	{"a waiter is passed by", func(s *story) {
		s.take(7)
		s.ask(11)
		s.t += 2 * sec
		s.ask(9)
		s.leave(7)
		s.got(9)
		s.leave(9)
		s.got(11)
		s.leave(11)
	}, []string{FIFO}},
	{"a key is left", func(s *story) {
		s.work(5, 1)
		s.add(history.Event{Kind: history.Over, Name: "key", Err: "/x"})
	}, []string{LeftOver}},
	{"a lock is refused when all is calm", func(s *story) {
		s.work(5, 1)
		s.ask(7)
		s.refuse(7, "none").Calm = true
	}, []string{CalmWorks, Losses}},
	{"nobody had the lock", func(s *story) {}, []string{Happened}},
	{"nobody had the lock, and the resource was written", func(s *story) {
		s.doc, _ = s.doc.Apply("ghost", history.Change{To: 1, Amount: 5})
	}, []string{Happened, WrongWrite, TornWrite}},
}
