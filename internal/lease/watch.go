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
	l.beside(&l.watches, func(over context.Context) { w.run(ctx, over) })
	return w
}

// run watches until ctx or over, which is the lease's, ends.
func (w *Watch) run(ctx, over context.Context) {
	wanted, cancel := context.WithCancel(over)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	for failures := 0; wanted.Err() == nil; failures++ {
		if w.once(wanted) {
			failures = 0
		}
		w.tell()
		if pause(wanted, w.lease.ttl, failures) != nil {
			return
		}
	}
}

// once makes a watch and tells what it says, until it is closed or ctx ends. It
// returns false if all that the watch said was that it is refused.
func (w *Watch) once(ctx context.Context) (served bool) {
	// A context of its own, since the metadata of the caller's would open a stream
	// of their own, and since ctx ends too early.
	watching, end := context.WithCancel(context.Background())
	defer end()
	w.mu.Lock()
	gen := w.lease.watchGen.Load()
	w.gen, w.again = gen, end
	w.mu.Unlock()
	created := make(chan struct{})
	defer context.AfterFunc(ctx, func() {
		w.lease.await(created)
		end()
	})()
	responses := w.lease.cfg.Client.Watch(w.lease.onStream(watching, gen), w.key, clientv3.WithCreatedNotify())
	close(created)
	for {
		select {
		case resp, open := <-responses:
			switch {
			case !open:
				return served
			case resp.Err() == nil || resp.CompactRevision != 0:
				// One that resumes after its connection was lost, and finds its
				// revision compacted, starts anew.
				served = true
			default:
				// A stream keeps the login that it was opened with, and all new
				// watches on it are refused once that has run out.
				w.lease.watchGen.CompareAndSwap(gen, gen+1)
			}
			w.tell()
		case <-watching.Done():
			// The client closes responses as well, but not while a dead connection
			// takes no more of its requests.
			return served
		}
	}
}

// await waits until a watch is there that nobody wants any more. The client
// forgets one that is cancelled before, and the server then keeps it until the
// key changes or the stream ends. (So it does with one that is cancelled while the
// client makes it again after its connection was lost, which nobody is told.)
func (l *Lease) await(created <-chan struct{}) {
	atMost := time.NewTimer(l.Reread())
	defer atMost.Stop()
	select {
	case <-created:
	case <-atMost.C:
	case <-l.hurry:
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
