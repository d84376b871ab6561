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
	l.Go(func(over context.Context) {
		// Not a child of ctx, whose metadata would open a stream of their own.
		watching, cancel := context.WithCancel(over)
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		w.run(watching)
	})
	return w
}

func (w *Watch) run(ctx context.Context) {
	for closed := 0; ctx.Err() == nil; closed++ {
		once, cancel := context.WithCancel(ctx)
		w.mu.Lock()
		w.gen, w.again = w.lease.watchGen.Load(), cancel
		gen := w.gen
		w.mu.Unlock()
		for resp := range w.lease.cfg.Client.Watch(w.lease.onStream(once, gen), w.key, clientv3.WithCreatedNotify()) {
			if resp.Err() == nil {
				closed = 0
			} else {
				// A stream keeps the login that it was opened with, and all new
				// watches on it are refused once that has run out.
				w.lease.watchGen.CompareAndSwap(gen, gen+1)
			}
			w.tell()
		}
		cancel()
		w.tell()
		if pause(ctx, w.lease.ttl, closed) != nil {
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
