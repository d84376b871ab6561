package lock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

// All tests share one server. Each has a namespace of its own, see namespace.
var (
	cluster *etcdtest.Cluster
	direct  *clientv3.Client                             // without faults
	login   etcdtest.Edit    = func(*clientv3.Config) {} // what every client needs
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(served{m}) }

type served struct{ *testing.M }

func (s served) Run() int {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := serve(ctx, os.Getenv("FENCEDLOCK_ETCD")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer cluster.Close()
	defer direct.Close()
	return s.M.Run()
}

// serve starts the embedded server; or the one that is the program at a path, as strict as they come: with client
// certificates, and a login that may use what lies under "/" and nothing else. (Its tokens last: etcd 3.4 asks for a valid one
// before it gives the next, so today's client cannot log in again: https://github.com/etcd-io/etcd/pull/12549.)
func serve(ctx context.Context, program string) (err error) {
	var o etcdtest.Options
	if program != "" {
		o = etcdtest.Options{Program: program, TLS: true}
	}
	if cluster, err = etcdtest.New(ctx, &o); err != nil {
		return err
	}
	if program != "" {
		err = cluster.EnableAuth(ctx, "secret", etcdtest.User{Name: "locker", Password: "pw", Prefix: "/"})
		login = etcdtest.As("locker", "pw")
	}
	if err == nil {
		direct, err = cluster.NewClient(login)
	}
	if err != nil {
		err = errors.Join(err, cluster.Close())
	}
	return err
}

// patient is how long a test waits for what should happen at once.
const patient = 20 * time.Second

// quick is within what a test must be told by an event, not by the timer of a session whose TTL is a minute.
const quick = 5 * time.Second

// rounds returns n, or a fifth of it where each round is slow.
func rounds(n int) int {
	if raceDetector || testing.Short() {
		return n / 5
	}
	return n
}

// namespace returns a prefix that only this test uses and that must be empty when it has ended.
func namespace(t testing.TB) string {
	t.Helper()
	ns := "/" + strings.NewReplacer("%", "_", "#", "_").Replace(t.Name()) + "/"
	t.Cleanup(func() { etcdtest.AssertEmpty(t, direct, ns, 0) })
	return ns
}

// faulty returns a client whose calls can be disturbed.
func faulty(t testing.TB) (*etcdtest.Faults, *clientv3.Client) {
	t.Helper()
	f := new(etcdtest.Faults)
	return f, cluster.Client(t, f.Apply, login)
}

// open returns a session that is closed when the test ends.
func open(t testing.TB, c *clientv3.Client, o session.Options) *session.Session {
	t.Helper()
	return openWith(t, t.Context(), c, o)
}

func openWith(t testing.TB, ctx context.Context, c *clientv3.Client, o session.Options) *session.Session {
	t.Helper()
	if o.TTL == 0 {
		o.TTL = time.Minute // nothing that is slow is saved by a timer
	}
	s, err := session.New(ctx, c, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // tests that end with a dead session are told so here
	return s
}

func mustLock(t testing.TB, m *lock.Mutex) *lock.Held {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	h, err := m.Lock(ctx)
	if err != nil {
		t.Fatalf("Lock: %v", err)
	}
	return h
}

func mustUnlock(t testing.TB, h *lock.Held) {
	t.Helper()
	if err := h.Unlock(); err != nil {
		t.Fatalf("Unlock: %v", err)
	}
}

// silenceRenewals lets renewals of all sessions to come get lost while the returned value is true.
func silenceRenewals(f *etcdtest.Faults) *atomic.Bool {
	silent := new(atomic.Bool)
	f.Stream("LeaseKeepAlive", -1, etcdtest.StreamHook{Send: func(context.Context, any) error {
		if silent.Load() {
			return etcdtest.ErrSkip
		}
		return nil
	}})
	return silent
}

// outcome is what a call of Lock came back with.
type outcome struct {
	h    *lock.Held
	err  error
	took time.Duration
}

// goLock locks beside the test.
func goLock(ctx context.Context, m *lock.Mutex) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		began := time.Now()
		h, err := m.Lock(ctx)
		done <- outcome{h, err, time.Since(began)}
	}()
	return done
}

// receive returns what comes within a time that only a fault can exceed.
func receive[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	return receiveWithin(t, c, patient)
}

func receiveWithin[T any](t testing.TB, c <-chan T, d time.Duration) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(d):
		t.Fatalf("nothing came within %v", d)
		panic("unreachable")
	}
}

// queue returns the keys of the lock called name, the head first. The name needs no escapes.
func queue(t testing.TB, ns, name string) []*mvccpb.KeyValue {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	resp, err := direct.Get(ctx, ns+name+"%/", clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		t.Fatal(err)
	}
	return resp.Kvs
}

// awaitQueue waits until the lock has n keys.
func awaitQueue(t testing.TB, ns, name string, n int) []*mvccpb.KeyValue {
	t.Helper()
	var kvs []*mvccpb.KeyValue
	eventually(t, fmt.Sprintf("%d keys in the queue of %q", n, name), func() bool {
		kvs = queue(t, ns, name)
		return len(kvs) == n
	})
	return kvs
}

// eventually is for what has no event to wait for.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patient); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patient, what)
		}
	}
}

// expectFree fails the test unless a session of its own gets the lock at once.
func expectFree(t testing.TB, ns, name string) {
	t.Helper()
	s := open(t, direct, session.Options{Namespace: ns})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	h, err := lock.NewMutex(s, name).Lock(ctx)
	if err != nil {
		t.Errorf("the lock should be free: %v; the queue holds %v", err, queue(t, ns, name))
		return
	}
	mustUnlock(t, h)
}

func put(t testing.TB, key, value string, opts ...clientv3.OpOption) int64 {
	t.Helper()
	resp, err := direct.Put(t.Context(), key, value, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Header.Revision
}

func remove(t testing.TB, key string) {
	t.Helper()
	if _, err := direct.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
}

func revoke(t testing.TB, s *session.Session) {
	t.Helper()
	if _, err := direct.Revoke(t.Context(), s.Lease()); err != nil {
		t.Fatal(err)
	}
}

// find returns the key, nil if there is none.
func find(t testing.TB, key string) *mvccpb.KeyValue {
	t.Helper()
	resp, err := direct.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Kvs) == 0 {
		return nil
	}
	return resp.Kvs[0]
}
