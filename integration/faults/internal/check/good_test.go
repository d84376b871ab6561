package check

import (
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
)

func TestGoodHistoriesBreakNoPromise(t *testing.T) {
	for story, play := range map[string]func(*story){
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
		"a holder that was paused before it knew comes after its successor": func(s *story) {
			s.ask(7)
			from := s.t
			s.t += 3 * sec
			s.work(9, 1)
			s.got(7)
			s.fault("pause", "w7.0", from, s.t)
		},
		"a key that was deleted from outside is noticed a moment later": func(s *story) {
			s.take(7)
			s.fault(DeleteKey, "token 7", s.t, s.t+1)
			s.work(9, 1)
			s.look(7)
		},
		"so is a lease that was revoked from outside": func(s *story) {
			s.take(7)
			s.fault(Revoke, "lease 1007", s.t, s.t+1)
			s.work(9, 1)
			s.look(7)
		},
		"a holder that was paused notices later that its key was deleted": func(s *story) {
			s.take(7)
			s.fault("pause", "w7.0", s.t, s.t+sec)
			s.fault(DeleteKey, "token 7", s.t, s.t+1)
			s.t += 3 * sec
			s.look(7)
		},
		"a release is told to be one while the next holder has the lock already": func(s *story) {
			s.take(7)
			s.look(7)
			s.add(s.of(7, history.Leave))
			s.work(9, 2)
			e := s.of(7, history.Left)
			e.OK = true
			s.add(e)
		},
		"a release tells the loss to who was too late": func(s *story) {
			s.take(7)
			s.look(7)
			from := s.t
			s.t += 3 * sec
			s.work(9, 2)
			s.fault("pause", "w7.0", from, s.t)
			s.add(s.of(7, history.Leave))
			s.add(s.of(7, history.Left))
		},
		"a lock is refused to who was cut off": func(s *story) {
			s.fault("cut-both", "w7.0", s.t, s.t+sec)
			s.t += 2 * sec
			s.ask(7)
			s.refuse(7, "session over")
			s.add(s.of(7, history.Lost)).Hold = ""
		},
		"a lock is lost by who was cut off long before it looked": func(s *story) {
			s.take(7)
			s.fault("cut-both", "w7.0", s.t, s.t+3*sec)
			s.t += 9 * sec
			s.lose(7)
			s.add(s.of(7, history.Left)).Err = "lost"
			s.add(s.of(7, history.Lost)).Hold = ""
		},
		"a lock is lost whose key was deleted, and a session whose lease was revoked": func(s *story) {
			s.take(7)
			s.fault(DeleteKey, "token 7", s.t, s.t+1)
			s.lose(7)
			s.take(9)
			s.fault(Revoke, "lease 1009", s.t, s.t+1)
			s.lose(9)
			s.add(s.of(9, history.Lost)).Hold = ""
		},
		"a lock is refused to a waiter whose key was deleted": func(s *story) {
			s.ask(7)
			s.fault(DeleteKey, "token 8", s.t, s.t+1)
			s.refuse(7, "its key was deleted")
		},
		"a lock is refused while etcd has no space": func(s *story) {
			s.fault("no-space", "etcd", s.t, s.t+sec)
			s.ask(7)
			s.refuse(7, "no space")
		},
		"a waiter gives up when it is called away": func(s *story) {
			s.take(7)
			s.ask(9)
			s.refuse(9, "lock: context canceled")
			s.leave(7)
		},
		"whose clock was set back believes too long": func(s *story) {
			s.take(7)
			s.fault(ClockBack, "w7.0", s.t, s.t+10*sec)
			s.t += 3 * sec
			s.work(9, 1)
			s.look(7)
		},
		"whose clock is set back while it is paused believes too long when it wakes": func(s *story) {
			s.take(7)
			s.look(7)
			from := s.t
			s.t += 2 * sec
			s.take(9)
			s.leave(9)
			s.t += sec
			s.fault(ClockBack, "w7.0", s.t, s.t+2*sec)
			s.t += sec
			s.look(7)
			s.fault("pause", "w7.0", from, s.t)
		},
		"a key that was deleted believes too long, and its successor is gone already": func(s *story) {
			s.take(7)
			s.look(7)
			s.fault(DeleteKey, "token 7", s.t, s.t+sec)
			s.t += sec / 2
			s.take(9)
			s.leave(9)
			s.look(7)
		},
		"a wait is long while etcd has no leader": func(s *story) {
			s.work(7, 1)
			s.ask(9)
			s.fault("leader-killed", "member 0", s.t, s.t+8*sec)
			s.t += 11 * sec
			s.got(9)
			s.leave(9)
		},
	} {
		t.Run(story, func(t *testing.T) {
			s := newStory()
			play(s)
			for _, v := range All(s.end(), Options{TTL: 2 * time.Second}) {
				t.Error(v)
			}
		})
	}
}
