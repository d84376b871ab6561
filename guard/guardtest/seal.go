package guardtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fencedlock/fencedlock/guard"
)

// checkSeal: a seal raises the mark and touches nothing else.
func checkSeal(ctx context.Context, s Store) error {
	var f findings
	const r = "seal"
	f.accepted("Seal of a new resource", s.Seal(ctx, r, 3))
	f.holds(ctx, s, r, "", 3)
	f.stale("write below the seal", s.Write(ctx, r, 2, "late"), r, 2, 3)
	f.holds(ctx, s, r, "", 3)
	f.accepted("write of the one who sealed", s.Write(ctx, r, 3, "a"))
	f.accepted("Seal by the next holder", s.Seal(ctx, r, 6))
	f.accepted("Seal again", s.Seal(ctx, r, 6))
	f.holds(ctx, s, r, "a", 6)
	f.stale("Seal below the mark", s.Seal(ctx, r, 5), r, 5, 6)
	f.stale("write of the earlier holder", s.Write(ctx, r, 3, "late"), r, 3, 6)
	f.holds(ctx, s, r, "a", 6)
	f.accepted("write of the next holder", s.Write(ctx, r, 6, "b"))
	f.holds(ctx, s, r, "b", 6)
	return f.err()
}

// checkSealBeforeRead: what a new holder reads after its seal is not changed by older writers any more.
func checkSealBeforeRead(ctx context.Context, s Store) error {
	var f findings
	for i := range 25 {
		r := fmt.Sprintf("seal before read %d", i)
		f.accepted("write", s.Write(ctx, r, 5, "a"))
		var wg sync.WaitGroup
		var late error
		start := make(chan struct{})
		wg.Go(func() {
			<-start
			late = s.Write(ctx, r, 5, "b")
		})
		close(start)
		// Some rounds give the write a head start, so that it is met at different points.
		time.Sleep(time.Duration(i%5) * 200 * time.Microsecond)
		sealed := s.busy(func() error { return s.Seal(ctx, r, 6) })
		f.accepted("Seal", sealed)
		before, err := s.Read(ctx, r)
		f.accepted("Read", err)
		wg.Wait()
		after, err := s.Read(ctx, r)
		f.accepted("Read", err)
		if sealed == nil && before != after {
			f.add("%.20q: the new holder sealed and read %.20q, and then it became %.20q", r, before, after)
		}
		if want := map[bool]string{true: "b", false: "a"}[late == nil]; after != want && !errors.Is(late, guard.ErrUnknown) {
			f.add("%.20q: the older write returned %v, and the content is %.20q", r, late, after)
		}
		if late != nil && !errors.Is(late, guard.ErrStale) && !errors.Is(late, guard.ErrUnknown) && !s.isBusy(late) {
			f.add("%.20q: the older write returned %w; want nil or ErrStale", r, late)
		}
	}
	return f.err()
}

func (s Store) isBusy(err error) bool { return s.Busy != nil && s.Busy(err) }

// busy runs an operation until it does not give up for contention.
func (s Store) busy(op func() error) error {
	for {
		err := op()
		if err == nil || !s.isBusy(err) {
			return err
		}
	}
}
