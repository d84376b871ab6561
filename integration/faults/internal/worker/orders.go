//go:build unix

package worker

import (
	"strings"
	"time"

	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
)

// obey carries out the orders of the nemesis, one line each, until it is told to finish:
//
//	stop PLACE TAG NAME  take that lock, stop at that place under it, and say "stopping TAG"; at "lingering", look for long
//	go TAG             forget an order to stop
//	step DURATION      set the clock of later and present sessions forward by that much, or back
//	lose METHOD III    lose the replies of the next calls of etcd, as many as there are strokes
//	late METHOD AFTER  deliver the next call after that time, and tell its caller at once that the reply was lost
//	pass               end of what lose and late do
//	calm               all faults are over
//	finish             end in order
func (w *worker) obey() {
	for {
		word := strings.Fields(w.self.Command())
		if len(word) == 0 {
			continue
		}
		word = append(word, "", "", "")
		switch word[0] {
		case "stop":
			w.stops.add(stop{place: word[1], tag: word[2], resource: word[3]})
		case "go":
			w.stops.forget(word[1])
		case "step":
			w.clock.step(duration(word[1]))
			w.self.Say("clock %v", w.clock.now())
		case "lose":
			w.faults.LoseReplies(word[1], len(word[2]))
		case "late":
			w.late(word[1], duration(word[2]))
		case "pass":
			w.faults.Clear()
		case "calm":
			w.calm.Store(true)
		case "finish":
			w.finish.Store(true)
			close(w.quit)
			return
		default:
			w.rec.Add(history.Event{Kind: history.Over, Name: "an order that nobody understands", Err: word[0]})
		}
	}
}

// late delivers one call when nobody waits for it any more.
func (w *worker) late(method string, after time.Duration) {
	p := w.faults.Late(method)
	w.pending.Go(func() {
		for _, c := range []<-chan struct{}{p.Reached(), nil} {
			t := time.NewTimer(after)
			select {
			case <-c:
			case <-t.C:
			case <-w.quit:
			}
			t.Stop()
		}
		_ = p.Release() // it fails, or comes too late, or does harm: that is the test
	})
}

// duration is what the nemesis has written.
func duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0
	}
	return d
}
