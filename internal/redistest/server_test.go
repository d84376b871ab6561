//go:build unix

package redistest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/fencedlock/fencedlock/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestServerKeepsWhatItsFileHasOverACrash(t *testing.T) {
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	c := s.Client(t)
	if err := c.Set(t.Context(), "x", "1", 0).Err(); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	if err := c.Ping(t.Context()).Err(); err == nil {
		t.Error("a killed server answers")
	}
	s.Restart(t)
	if got, err := c.Get(t.Context(), "x").Result(); got != "1" || err != nil {
		t.Errorf("x is %q, %v", got, err)
	}
}

func TestReplicaIsPromotedBySentinel(t *testing.T) {
	primary := redistest.Start(t)
	replica := primary.StartReplica(t)
	sentinel := redistest.StartSentinel(t, primary)
	c := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redistest.Group, SentinelAddrs: []string{sentinel.Addr()}})
	defer c.Close()
	if err := c.Set(t.Context(), "x", "1", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n := c.Wait(t.Context(), 1, 0).Val(); n != 1 {
		t.Fatalf("%d replicas have it", n)
	}
	primary.Kill()
	redistest.Eventually(t, "the replica takes writes", func() bool { return c.Set(t.Context(), "y", "2", 0).Err() == nil })
	if got := replica.Client(t).Get(t.Context(), "x").Val(); got != "1" {
		t.Errorf("x is %q", got)
	}
}

func TestClusterSharesTheSlots(t *testing.T) {
	c := redistest.StartCluster(t, 3)
	client := c.Client(t)
	for i := range 50 {
		if err := client.Set(t.Context(), fmt.Sprint(i), i, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range c.Servers {
		if n := s.Client(t).DBSize(t.Context()).Val(); n == 0 || n == 50 {
			t.Errorf("%s has %d of 50 keys", s.Addr(), n)
		}
	}
}

func TestProxyLosesScriptsAndReplies(t *testing.T) {
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	c := redis.NewClient(&redis.Options{Addr: p.Addr, MaxRetries: -1})
	defer c.Close()
	incr := func() error {
		return c.Eval(t.Context(), "return redis.call('INCR', KEYS[1])", []string{"n"}).Err()
	}
	want := func(what string, n int) {
		t.Helper()
		if got, err := s.Client(t).Get(t.Context(), "n").Int(); got != n || err != nil && !errors.Is(err, redis.Nil) {
			t.Errorf("%s: the counter is %d, %v; want %d", what, got, err, n)
		}
	}
	hit := p.Fail(redistest.LoseRequest)
	if err := incr(); err == nil {
		t.Error("a lost request was answered")
	}
	<-hit
	want("request lost", 0)
	hit = p.Fail(redistest.LoseReply)
	if err := incr(); err == nil {
		t.Error("a lost reply arrived")
	}
	<-hit
	want("reply lost", 1)
	p.FailAll(redistest.LoseRequest)
	for range 3 {
		if err := incr(); err == nil {
			t.Error("a lost request was answered")
		}
	}
	want("all requests lost", 1)
	p.FailAll(0)
	if err := incr(); err != nil {
		t.Error(err)
	}
	want("no fault", 2)
	if n := p.Scripts(); n != 6 {
		t.Errorf("%d scripts were seen; want 6", n)
	}
}

// The test runs itself again as a child, kills it while its server runs, and looks for what is left.
func TestKilledTestLeavesNothingBehind(t *testing.T) {
	if dir := os.Getenv("REDISTEST_CHILD"); dir != "" {
		s := redistest.Start(t)
		if err := os.WriteFile(filepath.Join(dir, "addr"), []byte(s.Addr()), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "addr"), filepath.Join(dir, "ready")); err != nil {
			t.Fatal(err)
		}
		select {}
	}
	redistest.Start(t) // skips without Redis
	dir := t.TempDir()
	tmp, err := os.MkdirTemp("", "fencedlock-redistest-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(tmp)
	if err := os.Chmod(tmp, 0o1777); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(exe, "-test.run=^TestKilledTestLeavesNothingBehind$")
	child.Env = append(os.Environ(), "REDISTEST_CHILD="+dir, "TMPDIR="+tmp)
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	ready := filepath.Join(dir, "ready")
	redistest.Eventually(t, "the child's server runs", func() bool { _, err := os.Stat(ready); return err == nil })
	addr, err := os.ReadFile(ready)
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(&redis.Options{Addr: string(addr), MaxRetries: -1})
	defer c.Close()
	if err := c.Ping(context.Background()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	redistest.Eventually(t, "the folder is gone", func() bool { left, err := os.ReadDir(tmp); return err == nil && len(left) == 0 })
	if err := c.Ping(context.Background()).Err(); err == nil {
		t.Error("the killed test's server still answers")
	}
}

func TestMissingRedisSkipsUnlessRequired(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("REDISTEST_MISSING") == "1" {
		redistest.Hide()
		redistest.Start(t)
		return
	}
	for _, required := range []string{"0", "1"} {
		c := exec.Command(exe, "-test.run=^TestMissingRedisSkipsUnlessRequired$", "-test.v")
		c.Env = append(os.Environ(), "REDISTEST_MISSING=1", "FENCEDLOCK_REQUIRE_SERVERS="+required)
		out, err := c.CombinedOutput()
		if failed := err != nil; failed != (required == "1") {
			t.Errorf("with FENCEDLOCK_REQUIRE_SERVERS=%s: %v\n%s", required, err, out)
		}
	}
}
