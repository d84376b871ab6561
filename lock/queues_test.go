package lock

import (
	"context"
	"testing"
	"time"
)

// https://github.com/redis/rueidis/issues/653: a turn that comes at the moment when its waiter gives up must go on to the next.
func TestTurnThatComesAsItsWaiterGivesUpIsPassedOn(t *testing.T) {
	qs := &queues{byPrefix: map[string]*queue{}}
	never := context.Background()
	var came, missed int
	for i := range 3000 {
		q := qs.enter("job")
		if !q.await(never, never) {
			t.Fatal("no turn in an empty queue")
		}
		ctx, cancel := context.WithCancel(never)
		got, next := make(chan bool), make(chan bool)
		go func() { got <- q.await(ctx, never) }()
		for waiting(q) == 0 {
			time.Sleep(time.Microsecond)
		}
		go func() { next <- q.await(never, never) }()
		for waiting(q) < 2 {
			time.Sleep(time.Microsecond)
		}
		switch i % 3 { // the waiter sees both, and wakes for the first
		case 0:
			cancel()
			q.pass()
		case 1:
			q.pass()
			cancel()
		case 2:
			go cancel()
			q.pass()
		}
		if <-got {
			came++
			q.pass()
		} else {
			missed++
		}
		select {
		case <-next:
		case <-time.After(5 * time.Second):
			t.Fatal("the turn is lost")
		}
		q.pass()
		q.leave()
		cancel()
	}
	t.Logf("the turn came in time %d times, too late %d times", came, missed)
	if came == 0 || missed == 0 {
		t.Error("the two never met")
	}
}

func waiting(q *queue) int {
	q.all.mu.Lock()
	defer q.all.mu.Unlock()
	return q.line.Len()
}
