//go:build unix

package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
)

// loseReplies lets etcd carry out some calls of one sort by a worker, which is told that the connection broke.
func loseReplies(sort string) fault {
	return func(n *nemesis, s step) (strike, error) {
		count := 1 + s.rnd().IntN(3)
		return n.shoot(s, provoke[sort], func(tag string) string { return fmt.Sprintf("lose %s %s %d", sort, tag, count) })
	}
}

// late delivers one call of a worker when it has been given up.
func late(sort string) fault {
	return func(n *nemesis, s step) (strike, error) {
		after := time.Duration(s.rnd().Int64N(int64(s.last))) // before the fault is over
		return n.shoot(s, provoke[sort], func(tag string) string { return fmt.Sprintf("late %s %s %v", sort, tag, after) })
	}
}

// provoke is what makes a worker send calls of a sort, if it does not do so often enough by itself.
var provoke = map[string]string{"enqueue": "once", "release": "once", "grant": "session", "revocation": "session"}

// shoot gives an order to strike calls of one sort to one of the workers, the first that then makes such a call, provoked or
// by itself.
func (n *nemesis) shoot(s step, provoked string, order func(tag string) string) (strike, error) {
	tag := strconv.FormatUint(s.pick, 36)
	may := n.mates(s)
	for _, m := range may[:min(tries, len(may))] {
		l, from := m.now(), history.Now()
		listened := l.order(listens, "%s", order(tag))
		if listened && provoked != "" {
			l.send("%s %s", provoked, tag)
		}
		if listened && l.said("struck "+tag, soon) {
			return strike{target: l.who, from: from, undo: func() {
				l.must("pass")
				l.must("go %s", tag)
			}}, nil
		}
		l.send("pass")
		l.send("go %s", tag)
	}
	return strike{}, errNotNow
}
