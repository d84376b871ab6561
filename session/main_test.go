package session_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/session"
)

// All tests share one server.
var (
	cluster *etcdtest.Cluster
	direct  *clientv3.Client // without faults
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(served{m}) }

type served struct{ *testing.M }

func (s served) Run() int {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var err error
	if cluster, err = etcdtest.New(ctx, nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer cluster.Close()
	if direct, err = cluster.NewClient(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer direct.Close()
	return s.M.Run()
}

// faulty returns a client whose calls can be disturbed.
func faulty(t testing.TB) (*etcdtest.Faults, *clientv3.Client) {
	t.Helper()
	f := new(etcdtest.Faults)
	return f, cluster.Client(t, f.Apply)
}

// open returns a session that is closed when the test ends.
func open(t testing.TB, c *clientv3.Client, ttl time.Duration) *session.Session {
	t.Helper()
	s, err := session.New(t.Context(), c, &session.Options{TTL: ttl, Namespace: namespace(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // of a session that is dead by then, it is an error
	return s
}

func namespace(t testing.TB) string { return "/" + strings.ReplaceAll(t.Name(), "%", "_") + "/" }

// leases returns how many leases the server has.
func leases(t testing.TB) int {
	t.Helper()
	resp, err := direct.Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return len(resp.Leases)
}

// left returns what the server says is left of a lease, -1 if it does not know it.
func left(t testing.TB, id clientv3.LeaseID) int64 {
	t.Helper()
	resp, err := direct.TimeToLive(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return resp.TTL
}

func ended(t testing.TB, s *session.Session, within time.Duration) {
	t.Helper()
	select {
	case <-s.Context().Done():
	case <-time.After(within):
		t.Fatalf("the session has not ended within %v; %v are left", within, s.Remaining())
	}
}

// eventually is for what has no event to wait for.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20s: %s", what)
		}
	}
}
