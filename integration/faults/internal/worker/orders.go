//go:build unix

package worker

import (
	"strconv"
	"strings"
	"time"

	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
)

// obey carries out the orders of the nemesis until it is told to finish. Each is one line that begins with a number, and
// once it is obeyed, or sure to be, the worker says "did NUMBER":
//
//	stop PLACE TAG NAME  take that lock, stop at that place under it, and say "stopping TAG"; at "lingering", look for long
//	once TAG           take a lock on a name that is not used again
//	session TAG        close the session and open another
//	go TAG             forget one of these
//	step DURATION      set the clock of later and present sessions forward by that much, or back
//	lose SORT TAG N    lose the replies of the next N calls of etcd of that sort, and say "struck TAG" at the first
//	late SORT TAG AFTER  deliver the next one after that time, and tell its caller at once that the reply was lost
//	pass               end of what lose and late do
//	calm               all faults are over
//	finish             end in order
func (w *worker) obey() {
	for {
		number, text, _ := strings.Cut(w.self.Command(), " ")
		word := append(strings.Fields(text), "", "", "", "")
		switch word[0] {
		case "stop":
			w.stops.add(stop{place: word[1], tag: word[2], resource: word[3]})
		case takingOnce, reopening:
			w.stops.add(stop{place: word[0], tag: word[1]})
		case "go":
			w.stops.forget(word[1])
		case "step":
			w.clock.step(duration(word[1]))
			w.self.Say("clock %v", w.clock.now())
		case "lose":
			n, _ := strconv.Atoi(word[3])
			w.aim.order(shot{sort: word[1], tag: word[2], left: n})
		case "late":
			w.aim.order(shot{sort: word[1], tag: word[2], left: 1, late: true, wait: duration(word[3])})
		case "pass":
			w.aim.order(shot{})
		case "calm":
			w.stops.forgetAll()
			w.calm.Store(true)
		case "finish":
			w.self.Say("did %s", number)
			w.finish.Store(true)
			close(w.quit)
			return
		default:
			w.rec.Add(history.Event{Kind: history.Over, Name: "an order that nobody understands", Err: text})
		}
		w.self.Say("did %s", number)
	}
}

// duration is what the nemesis has written.
func duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0
	}
	return d
}
