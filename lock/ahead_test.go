package lock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

// Who waits in vain wants to know for whom; a program that locks twice finds itself.
func TestWaitThatEndsSaysWhoWasAhead(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	mutex := func(owner string) *lock.Mutex {
		return lock.NewMutex(open(t, direct, session.Options{Namespace: ns, Owner: owner}), "job")
	}
	first, second, third := mutex("first"), mutex("second"), mutex("third")
	h := mustLock(t, first)
	waiting := goLock(t.Context(), second)
	eventually(t, "the second is in the queue", func() bool { return len(queue(t, ns, "job")) == 2 })
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // for the request that enters the queue
	defer cancel()
	behindAnother, behindItself := goLock(ctx, third), goLock(ctx, first)
	for want, wait := range map[string]<-chan outcome{
		"behind second (token ":               behindAnother,
		"behind another call in this session": behindItself,
	} {
		if err := receive(t, wait).err; !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), want) {
			t.Errorf("not %q: %v", want, err)
		}
	}
	mustUnlock(t, h)
	got := receive(t, waiting)
	if got.err != nil {
		t.Fatal(got.err)
	}
	mustUnlock(t, got.h)
	expectFree(t, ns, "job")
}
