package lease

import (
	"context"
	"errors"
	"sync"

	"go.uber.org/zap"
)

// A Suspect is a key of this lease that may be left in etcd although nobody
// wants it any more.
type Suspect struct {
	Key string

	// Rev is the mod revision that the key had, 0 if that is not known. If it has
	// another one by now, it is deleted unless Wanted says that its value belongs
	// to someone.
	Rev    int64
	Wanted func(value []byte) bool

	// LatePut tells that a put of the key was not answered, so that it may
	// still land: the epoch moves before the key is looked at.
	LatePut bool

	// Done is called once the key is surely gone, or wanted, with true, or the
	// lease is over, with false; it may be nil.
	Done func(settled bool)
}

// sweeper deletes suspects in the background until that has surely happened or
// the lease is over, when the server does it.
type sweeper struct {
	mu      sync.Mutex
	queue   []Suspect // guarded by mu
	running bool      // guarded by mu
}

// Sweep hands s to the sweeper and returns at once.
func (l *Lease) Sweep(s Suspect) {
	w := &l.sweeper
	w.mu.Lock()
	w.queue = append(w.queue, s)
	idle := !w.running
	w.running = true
	w.mu.Unlock()
	if idle && !l.Go(l.sweep) {
		l.sweep(l.ctx) // the lease is over, so this only calls Done
	}
}

// next returns all suspects there are; when it returns none, sweep must end.
func (w *sweeper) next() []Suspect {
	w.mu.Lock()
	defer w.mu.Unlock()
	batch := w.queue
	w.queue = nil
	w.running = len(batch) > 0
	return batch
}

func (w *sweeper) putBack(left []Suspect) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = append(left, w.queue...)
}

func (l *Lease) sweep(ctx context.Context) {
	failures := 0
	for batch := l.sweeper.next(); len(batch) > 0; batch = l.sweeper.next() {
		left, err := l.sweepBatch(ctx, batch)
		if err == nil {
			failures = 0
			continue
		}
		l.sweeper.putBack(left)
		l.cfg.Logger.Warn("session: keys that nobody wants are still in etcd; deleting them is tried again",
			zap.Int("keys", len(left)), zap.Error(err))
		_ = l.Pause(ctx, failures)
		failures++
	}
}

// sweepBatch returns the suspects that are left and the last error. None are
// left when the lease is over.
func (l *Lease) sweepBatch(ctx context.Context, batch []Suspect) (left []Suspect, last error) {
	moved := false
	for _, s := range batch {
		err := l.sweepOne(ctx, &s, &moved)
		if err != nil && l.Err() == nil {
			left, last = append(left, s), err
		} else if s.Done != nil {
			s.Done(err == nil)
		}
	}
	return left, last
}

// sweepOne moves the epoch if s needs that and no suspect before it has done so
// in this batch, then deletes the key. What it has achieved is kept in s, so that
// the next attempt goes on at the step that failed: an endpoint that is bad would
// else meet the same step each time.
func (l *Lease) sweepOne(ctx context.Context, s *Suspect, moved *bool) error {
	if s.LatePut && !*moved {
		if err := l.moveEpoch(ctx); err != nil {
			// Without space etcd takes no puts, but deletes. What is there now can
			// go; the suspect stays for what may still land.
			return errors.Join(err, l.removeSuspect(ctx, s))
		}
		*moved = true
	}
	s.LatePut = false
	return l.removeSuspect(ctx, s)
}

func (l *Lease) removeSuspect(ctx context.Context, s *Suspect) error {
	for {
		if s.Rev != 0 {
			if deleted, err := l.Delete(ctx, s.Key, s.Rev); err != nil || deleted {
				return err
			}
			s.Rev = 0
		}
		found, err := l.Find(ctx, s.Key)
		if err != nil || found == nil || s.Wanted(found.Value) {
			return err
		}
		s.Rev = found.ModRevision
	}
}
