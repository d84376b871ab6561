package lease

import (
	"context"
	"strconv"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

// A Watch tells when to look at a key again: once it is in place, at whatever
// happens to the key after, and when it is closed. It only speeds things up. One on a
// half-open connection says nothing and does not know it, so whoever relies on
// a key also reads it from time to time, and calls Deaf when that finds what
// the watch should have told.
//
// It starts at no revision: etcd delivers a watch of the past from a loop that
// runs every 100 ms.
type Watch struct {
	lease *Lease
	key   string
	tell  func()

	mu    sync.Mutex
	gen   int64              // guarded by mu
	again context.CancelFunc // guarded by mu
}

// Reread returns how often who relies on a watched key reads it as well.
func (l *Lease) Reread() time.Duration { return min(l.ttl/3, 5*time.Second) }

// Watch watches key until ctx or the lease ends, and calls tell in a goroutine
// that it needs all the same.
func (l *Lease) Watch(ctx context.Context, key string, tell func()) *Watch {
	w := &Watch{lease: l, key: key, tell: tell}
	l.Go(func(over context.Context) { w.run(ctx, over) })
	return w
}

// run watches until ctx or over, which is the lease's, ends.
func (w *Watch) run(ctx, over context.Context) {
	// Not a child of ctx, whose metadata would open a stream of their own.
	wanted, cancel := context.WithCancel(over)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	for closed := 0; wanted.Err() == nil; closed++ {
		once, end := context.WithCancel(over)
		w.mu.Lock()
		w.gen, w.again = w.lease.watchGen.Load(), end
		gen := w.gen
		w.mu.Unlock()
		// The client forgets a watch that is cancelled before the server has said that it is there, and the server then
		// keeps it until the key changes or the stream ends. So that answer is awaited, for a while.
		created := make(chan struct{})
		unhook := context.AfterFunc(ctx, func() {
			atMost := time.NewTimer(w.lease.Reread())
			defer atMost.Stop()
			select {
			case <-created:
			case <-atMost.C:
			case <-over.Done():
			}
			end()
		})
		responses := w.lease.cfg.Client.Watch(w.lease.onStream(once, gen), w.key, clientv3.WithCreatedNotify())
		close(created)
		for resp := range responses {
			if resp.Err() == nil || resp.CompactRevision != 0 {
				// One that resumes after its connection was lost, and finds its revision compacted, starts anew.
				closed = 0
			} else {
				// A stream keeps the login that it was opened with, and all new
				// watches on it are refused once that has run out.
				w.lease.watchGen.CompareAndSwap(gen, gen+1)
			}
			w.tell()
		}
		unhook()
		end()
		w.tell()
		if pause(wanted, w.lease.ttl, closed) != nil {
			return
		}
	}
}

// onStream makes the client open a watch on the gen-th stream of the lease: it
// shares a stream among watches whose metadata are the same.
func (l *Lease) onStream(ctx context.Context, gen int64) context.Context {
	ctx = clientv3.WithRequireLeader(ctx)
	return metadata.AppendToOutgoingContext(ctx, "fencedlock-watch", strconv.FormatInt(gen, 10))
}

// Deaf moves this watch, and all that start from now on, to a new stream, which
// the client opens on its next endpoint.
func (w *Watch) Deaf() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lease.watchGen.CompareAndSwap(w.gen, w.gen+1)
	if w.again != nil {
		w.again()
	}
}
