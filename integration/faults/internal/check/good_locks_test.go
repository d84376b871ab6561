package check

import "github.com/fencedlock/fencedlock/integration/faults/internal/history"

// goodLocks are neighbours of plantedLocks in which nothing was promised, or a fault is to blame.
var goodLocks = map[string]func(*story){
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
	"a key was perhaps not deleted": func(s *story) {
		s.take(7)
		s.fault(DeleteKey, "token 7", s.t, s.t+1)
		s.events[len(s.events)-2].Err = "no reply"
		s.t += 9 * sec
		s.look(7)
		s.leave(7)
	},
	"a key that was perhaps not deleted was": func(s *story) {
		s.take(7)
		s.fault(DeleteKey, "token 7", s.t, s.t+1)
		s.events[len(s.events)-2].Err = "no reply"
		s.work(9, 1)
		s.look(7)
		s.lose(7)
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
		s.work(5, 1)
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
		s.work(5, 1)
		s.ask(7)
		s.fault(DeleteKey, "token 8", s.t, s.t+1)
		s.refuse(7, "its key was deleted")
	},
	"a lock is lost since the machine stood still": func(s *story) {
		s.take(7)
		s.fault(Stall, "machine", s.t, s.t+2*sec)
		s.t += 2 * sec
		s.lose(7)
	},
	"a lock is refused while etcd has no space": func(s *story) {
		s.work(5, 1)
		s.fault("no-space", "etcd", s.t, s.t+sec)
		s.ask(7)
		s.refuse(7, "no space")
	},
	"a waiter gives up when it is called away": func(s *story) {
		s.take(7)
		s.ask(9)
		s.refuse(9, "lock: context canceled")
		s.ask(11)
		s.refuse(11, "rpc error: code = Canceled desc = context canceled")
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
	"a wait is long while the one ahead is cut off and its lock not free": func(s *story) {
		s.take(7)
		s.ask(9)
		s.fault("cut-both", "w7.0", s.t, s.t+6*sec)
		s.t += 2 * sec
		s.lose(7)
		s.add(s.of(7, history.Left)).Err = "lost"
		s.t += 5 * sec
		s.got(9)
		s.leave(9)
	},
	"a wait is long while the one ahead is cut off and does not take the free lock": func(s *story) {
		s.take(7)
		s.ask(9)
		s.ask(11)
		s.fault("cut-both", "w9.0", s.t, s.t+6*sec)
		s.leave(7)
		s.t += 7 * sec
		s.got(9)
		s.leave(9)
		s.got(11)
		s.leave(11)
	},
	"a wait is long while somebody cannot give back what it had": func(s *story) {
		s.take(7)
		s.fault("cut-both", "w7.0", s.t, s.t+6*sec)
		s.add(s.of(7, history.Leave))
		s.add(s.of(7, history.Left)).Err = "unconfirmed"
		s.ask(9)
		s.t += 7 * sec
		s.got(9)
		s.leave(9)
	},
	"a wait ends long before a fault": func(s *story) {
		s.take(5)
		s.ask(7)
		s.t += sec
		s.gaveUp(7)
		s.leave(5)
		s.fault("leader-killed", "member 0", s.t+10*sec, s.t+11*sec)
		s.t += 12 * sec
	},
	"a waiter gives up before one who asked later gets it": func(s *story) {
		s.take(5)
		s.ask(7)
		s.t += 2 * sec
		s.ask(9)
		s.gaveUp(7)
		s.leave(5)
		s.got(9)
		s.leave(9)
	},
	"a waiter is passed by since it was cut off shortly before it asked": func(s *story) {
		s.take(7)
		s.fault("cut-both", "w11.0", s.t, s.t+sec)
		s.t += 2 * sec
		s.ask(11)
		s.t += 2 * sec
		s.ask(9)
		s.leave(7)
		s.got(9)
		s.leave(9)
		s.got(11)
		s.leave(11)
	},
	"a wait is long while many are ahead": func(s *story) {
		for tok := range int64(5) {
			s.ask(7 + tok)
		}
		s.ask(20)
		for tok := range int64(5) {
			s.got(7 + tok)
			s.t += 2 * sec
			s.leave(7 + tok)
		}
		s.got(20)
		s.leave(20)
	},
	"a waiter is killed, and waits no longer": func(s *story) {
		s.take(7)
		s.ask(9)
		s.fault(Kill, "w9.0", s.t, s.t+sec)
		s.leave(7)
		s.t += 9 * sec
		s.work(11, 1)
	},
	"who asked later is first by less than a round trip": func(s *story) {
		s.take(7)
		s.ask(11)
		s.t += sec / 2
		s.ask(9)
		s.leave(7)
		s.got(9)
		s.leave(9)
		s.got(11)
		s.leave(11)
	},
	"a waiter is passed by since it was cut off when it asked": func(s *story) {
		s.take(7)
		s.fault("cut-both", "w11.0", s.t, s.t+sec)
		s.ask(11)
		s.t += 2 * sec
		s.ask(9)
		s.leave(7)
		s.got(9)
		s.leave(9)
		s.got(11)
		s.leave(11)
	},
	"a waiter is passed by since its session was over": func(s *story) {
		s.take(7)
		s.ask(11)
		s.t += 2 * sec
		s.ask(9)
		s.fault(Revoke, "lease 1011", s.t, s.t+1)
		s.leave(7)
		s.got(9)
		s.leave(9)
		s.refuse(11, "session over")
	},
	"a wait is long while etcd has no leader": func(s *story) {
		s.work(7, 1)
		s.ask(9)
		s.fault("leader-killed", "member 0", s.t, s.t+8*sec)
		s.t += 11 * sec
		s.got(9)
		s.leave(9)
	},
}
