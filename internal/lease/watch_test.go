package lease

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/etcdhttp"
	"go.uber.org/zap"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
)

const patient = 20 * time.Second

// watching is a client with one watch stream, which a watch that is there from the beginning keeps open.
type watching struct {
	t       *testing.T
	cluster *etcdtest.Cluster
	proxy   *etcdtest.Proxy
	faults  *etcdtest.Faults
	client  *clientv3.Client
}

// watched returns one whose stream goes through hook once the first watch is there.
func watched(t *testing.T, hook etcdtest.StreamHook) *watching {
	t.Helper()
	awaitWatches(t, 0) // of the test before
	w := &watching{t: t, cluster: etcdtest.Start(t, nil), faults: new(etcdtest.Faults)}
	w.proxy = etcdtest.StartProxy(t, w.cluster.Endpoints()[0])
	var on atomic.Bool
	when := func(f func(context.Context, any) error) func(context.Context, any) error {
		return func(ctx context.Context, msg any) error {
			if f == nil || !on.Load() {
				return nil
			}
			return f(ctx, msg)
		}
	}
	w.faults.Stream("Watch", -1, etcdtest.StreamHook{Send: when(hook.Send), Recv: when(hook.Recv)})
	w.client = w.cluster.Client(t, etcdtest.Via(w.proxy), w.faults.Apply)
	first := w.watch(t.Context(), w.open(time.Minute), "/first")
	receive(t, first)
	awaitWatches(t, 1)
	on.Store(true)
	return w
}

func (w *watching) open(ttl time.Duration) *Lease {
	w.t.Helper()
	l, err := Open(w.t.Context(), Config{Client: w.client, TTL: ttl, Owner: "test", Namespace: "/test/", Logger: zap.NewNop()})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { l.Close() })
	return l
}

// watch returns a channel that gets what the watch tells.
func (w *watching) watch(ctx context.Context, l *Lease, key string) <-chan struct{} {
	told := make(chan struct{}, 100)
	l.Watch(ctx, key, func() { told <- struct{}{} })
	return told
}

// watches returns how many watches the etcd of this process has.
func watches(t *testing.T) int {
	t.Helper()
	mux, page := http.NewServeMux(), httptest.NewRecorder()
	etcdhttp.HandleMetrics(mux)
	mux.ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	_, after, found := strings.Cut(page.Body.String(), "\netcd_debugging_mvcc_watcher_total ")
	text, _, _ := strings.Cut(after, "\n")
	n, err := strconv.Atoi(text)
	if !found || err != nil {
		t.Fatalf("etcd does not say how many watches it has: %v", err)
	}
	return n
}

// awaitWatches waits until etcd has n watches.
func awaitWatches(t *testing.T, n int) {
	t.Helper()
	for end := time.Now().Add(patient); watches(t) != n; {
		if time.Now().After(end) {
			t.Fatalf("etcd has %d watches; want %d", watches(t), n)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func receive(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patient):
		t.Fatal("nothing came")
	}
}

// confirmations holds back what says that a watch is there.
type confirmations struct{ held, release chan struct{} }

func holdConfirmations() (c confirmations, hook func(context.Context, any) error) {
	c = confirmations{make(chan struct{}, 100), make(chan struct{})}
	return c, func(ctx context.Context, msg any) error {
		if msg.(*pb.WatchResponse).Created {
			c.held <- struct{}{}
			select {
			case <-c.release:
			case <-ctx.Done():
			}
		}
		return nil
	}
}

// letThrough ends that, after a moment in which the client would forget a watch that is cancelled.
func (c confirmations) letThrough() {
	time.Sleep(100 * time.Millisecond)
	close(c.release)
}

// What nobody waits for any more must not stay in etcd, neither when its watch was still being made. The key of a lock that is
// held for long does not change, so such watches would pile up.
//
// https://github.com/etcd-io/etcd/issues/9416, https://github.com/etcd-io/etcd/pull/11850
func TestWatchThatIsCancelledBeforeItIsThereDoesNotStayInEtcd(t *testing.T) {
	c, hook := holdConfirmations()
	w := watched(t, etcdtest.StreamHook{Recv: hook})
	ctx, cancel := context.WithCancel(t.Context())
	w.watch(ctx, w.open(time.Minute), "/job")
	receive(t, c.held)
	awaitWatches(t, 2)
	cancel()
	c.letThrough()
	awaitWatches(t, 1) // the first
}

// The same when the whole lease ends. Its revocation does not wait for watches, which may take longer: a client makes those of a
// stream one after the other. Once the lease is revoked, its own keys never change again.
func TestWatchWhoseLeaseIsClosedBeforeItIsThereDoesNotStayInEtcd(t *testing.T) {
	c, hook := holdConfirmations()
	w := watched(t, etcdtest.StreamHook{Recv: hook})
	l := w.open(time.Minute)
	w.watch(t.Context(), l, "/job")
	receive(t, c.held)
	w.faults.Do("LeaseRevoke", 1, func(ctx context.Context, call *etcdtest.Call) error {
		err := call.Send(ctx)
		go c.letThrough()
		return err
	})
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	awaitWatches(t, 1) // the first
}

// loseConfirmations is for a stream on which nothing says that a watch is there.
func loseConfirmations() (lost chan struct{}, hook func(context.Context, any) error) {
	lost = make(chan struct{}, 100)
	return lost, func(_ context.Context, msg any) error {
		if msg.(*pb.WatchResponse).Created {
			lost <- struct{}{}
			return etcdtest.ErrSkip
		}
		return nil
	}
}

func TestWatchThatIsCancelledAndNeverConfirmedEndsAllTheSame(t *testing.T) {
	lost, hook := loseConfirmations()
	w := watched(t, etcdtest.StreamHook{Recv: hook})
	ctx, cancel := context.WithCancel(t.Context())
	told := w.watch(ctx, w.open(3*time.Second), "/job")
	receive(t, lost)
	cancel()
	receive(t, told)
}

func TestCloseWaitsForAWatchThatIsNeverConfirmedForAMomentOnly(t *testing.T) {
	lost, hook := loseConfirmations()
	w := watched(t, etcdtest.StreamHook{Recv: hook})
	l := w.open(time.Minute)
	told := w.watch(t.Context(), l, "/job")
	receive(t, lost)
	began := time.Now()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took >= l.Reread() {
		t.Errorf("Close took %v", took)
	}
	if len(told) == 0 {
		t.Error("Close returned before the watch's goroutine")
	}
}

// A connection that is dead and does not know it takes requests until its buffers are full. The client then waits for room, and
// closes no watch meanwhile.
func TestWatchEndsThoughItsStreamTakesNoMoreRequests(t *testing.T) {
	stuck, free := make(chan struct{}, 1), make(chan struct{})
	defer close(free)
	w := watched(t, etcdtest.StreamHook{Send: func(ctx context.Context, msg any) error {
		if msg.(*pb.WatchRequest).GetCancelRequest() == nil {
			return nil
		}
		stuck <- struct{}{}
		select {
		case <-free:
		case <-ctx.Done():
		}
		return nil
	}})
	l := w.open(time.Minute)
	var told [2]<-chan struct{}
	var cancel [2]context.CancelFunc
	for i := range told {
		var ctx context.Context
		ctx, cancel[i] = context.WithCancel(t.Context())
		defer cancel[i]()
		told[i] = w.watch(ctx, l, fmt.Sprintf("/job%d", i))
		receive(t, told[i])
	}
	cancel[0]()
	receive(t, stuck)
	cancel[1]()
	receive(t, told[1]) // that it is over
}

// A watch that was idle while others wrote resumes at a revision that may be compacted by now. That is no refusal of the login,
// which would cost the lease another stream.
//
// https://github.com/etcd-io/etcd/issues/8668
func TestWatchGoesOnAfterItsRevisionWasCompactedAndStaysOnItsStream(t *testing.T) {
	compacted := make(chan struct{}, 100)
	w := watched(t, etcdtest.StreamHook{Recv: func(_ context.Context, msg any) error {
		if msg.(*pb.WatchResponse).CompactRevision != 0 {
			compacted <- struct{}{}
		}
		return nil
	}})
	l := w.open(time.Minute)
	told := w.watch(t.Context(), l, "/job")
	receive(t, told)
	direct := w.cluster.Client(t)
	for range 2 { // it resumes at the first of them
		if _, err := direct.Put(t.Context(), "/other", ""); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.cluster.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.proxy.Cut()
	receive(t, compacted)
	for range 3 { // of that, of its end, and that it is there again
		receive(t, told)
	}
	if _, err := direct.Put(t.Context(), "/job", ""); err != nil {
		t.Fatal(err)
	}
	receive(t, told)
	if gen := l.watchGen.Load(); gen != 0 {
		t.Errorf("the lease has left %d streams", gen)
	}
}
