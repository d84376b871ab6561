package etcdguard_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/etcdguard"
	"github.com/fencedlock/fencedlock/integration/etcdtest"
)

// Most tests share one server. Each has a prefix of its own, see prefix.
var (
	cluster *etcdtest.Cluster
	direct  *clientv3.Client // without faults
)

func TestMain(m *testing.M) {
	runRole()
	goleak.VerifyTestMain(served{m})
}

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

// patient is how long a test waits for what should happen at once.
const patient = 20 * time.Second

// prefix returns what the keys of this test begin with, marks below "marks/" among them. They are deleted when it ends.
func prefix(t testing.TB) string {
	t.Helper()
	p := "/" + strings.NewReplacer(" ", "_", ",", "_").Replace(t.Name()) + "/"
	t.Cleanup(func() {
		if _, err := direct.Delete(context.Background(), p, clientv3.WithPrefix()); err != nil {
			t.Error(err)
		}
	})
	return p
}

// newGuard returns a guard whose marks are under p+"marks/". It retries twice.
func newGuard(t testing.TB, client clientv3.KV, p string) *etcdguard.Guard {
	t.Helper()
	return newGuardWith(t, client, etcdguard.Options{Prefix: p + "marks/", MaxRetries: 2})
}

func newGuardWith(t testing.TB, client clientv3.KV, o etcdguard.Options) *etcdguard.Guard {
	t.Helper()
	g, err := etcdguard.New(client, &o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// faulty returns a client whose calls can be disturbed.
func faulty(t testing.TB) (*etcdtest.Faults, *clientv3.Client) {
	t.Helper()
	f := new(etcdtest.Faults)
	return f, cluster.Client(t, f.Apply)
}

func mustDo(t testing.TB, g *etcdguard.Guard, resource string, tok guard.Token, ops ...clientv3.Op) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	if err := g.Do(ctx, resource, tok, ops...); err != nil {
		t.Fatal(err)
	}
}

// entry is what etcd has under a key.
type entry struct {
	value   string
	version int64 // how often it was put
}

func get(t testing.TB, key string) entry {
	t.Helper()
	resp, err := direct.Get(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Kvs) == 0 {
		return entry{}
	}
	return entry{string(resp.Kvs[0].Value), resp.Kvs[0].Version}
}

func expect(t testing.TB, key, value string, version int64) {
	t.Helper()
	if got, want := get(t, key), (entry{value, version}); got != want {
		t.Errorf("%s is %q, put %d times; want %q, %d times", key, got.value, got.version, want.value, want.version)
	}
}

func expectMark(t testing.TB, g *etcdguard.Guard, resource string, want guard.Token) {
	t.Helper()
	if got, err := g.Highest(context.Background(), resource); got != want || err != nil {
		t.Errorf("Highest(%q) = %d, %v; want %d", resource, int64(got), err, int64(want))
	}
}
