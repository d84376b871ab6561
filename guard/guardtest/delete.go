package guardtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/fencedlock/fencedlock/guard"
)

// checkStaleAfterDelete: the mark outlives the content.
func checkStaleAfterDelete(ctx context.Context, s Store) error {
	var f findings
	const r = "delete"
	f.accepted("write", s.Write(ctx, r, 5, "a"))
	f.stale("Delete below the mark", s.Delete(ctx, r, 4), r, 4, 5)
	f.holds(ctx, s, r, "a", 5)
	f.accepted("Delete by the next holder", s.Delete(ctx, r, 6))
	f.holds(ctx, s, r, "", 6)
	f.stale("write of the earlier holder", s.Write(ctx, r, 5, "late"), r, 5, 6)
	f.holds(ctx, s, r, "", 6)
	f.accepted("Delete of what is not there", s.Delete(ctx, r, 7))
	f.holds(ctx, s, r, "", 7)
	f.accepted("write after the deletion", s.Write(ctx, r, 7, "b"))
	f.holds(ctx, s, r, "b", 7)
	return f.err()
}

// checkLateDelete: a deletion compares, marks and removes in one step, so that a later holder who comes in between loses
// nothing.
func checkLateDelete(ctx context.Context, s Store) error {
	var f findings
	for i := range 24 {
		r := fmt.Sprintf("late delete %d", i)
		f.accepted("write", s.Write(ctx, r, 5, "a"))
		var (
			wg   sync.WaitGroup
			late error
		)
		start, done := make(chan struct{}), make(chan struct{})
		wg.Go(func() {
			defer close(done)
			<-start
			late = s.Delete(ctx, r, 6)
		})
		close(start)
		if i%2 == 0 { // meet it when its mark is there,
			awaitMark(ctx, s, r, 6, done)
		} else { // or anywhere, also before
			time.Sleep(time.Duration(i/2%6) * 200 * time.Microsecond)
		}
		var before string
		var err error
		if i%4 < 2 {
			before = "b"
			err = s.busy(func() error { return s.Write(ctx, r, 7, "b") })
			f.accepted("write of the later holder", err)
		} else {
			err = s.busy(func() error { return s.Seal(ctx, r, 7) })
			f.accepted("Seal of the later holder", err)
			var e error
			before, e = s.Read(ctx, r)
			f.accepted("Read", e)
		}
		wg.Wait()
		after, e := s.Read(ctx, r)
		f.accepted("Read", e)
		unknown := errors.Is(late, guard.ErrUnknown)
		switch {
		case err == nil && before != after:
			f.add("%.20q: after the later holder's step it was %.20q, and an earlier Delete made it %.20q", r, before, after)
		case before != "b" && !unknown && (late == nil) != (after == ""):
			f.add("%.20q: the earlier Delete returned %v, and the content is %.20q", r, late, after)
		}
		if late != nil && !errors.Is(late, guard.ErrStale) && !unknown && !s.isBusy(late) {
			f.add("%.20q: the earlier Delete returned %w; want nil or ErrStale", r, late)
		}
	}
	return f.err()
}

// awaitMark returns when resource has the mark, or done is closed.
func awaitMark(ctx context.Context, s Store, resource string, mark guard.Token, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		default:
		}
		if got, err := s.Highest(ctx, resource); err != nil || got >= mark {
			return
		}
		runtime.Gosched() // a store in memory never waits, and must get its turn
	}
}
