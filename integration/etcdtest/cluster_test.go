package etcdtest_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
)

func TestClusterIsReadySoonAndLeavesNothing(t *testing.T) {
	for _, members := range []int{1, 3} {
		before := goleak.IgnoreCurrent()
		dir := t.TempDir()
		begin := time.Now()
		c, err := etcdtest.New(t.Context(), &etcdtest.Options{Members: members, Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d members: ready after %v", members, time.Since(begin))
		client, err := c.NewClient()
		if err != nil {
			t.Fatal(err)
		}
		put(t, client, "a", "1")
		// An open watch must not slow the stop down.
		ctx, cancel := context.WithCancel(t.Context())
		<-client.Watch(ctx, "a", clientv3.WithCreatedNotify())
		begin = time.Now()
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begin); d > 3*time.Second {
			t.Errorf("%d members: closing took %v", members, d)
		}
		cancel()
		client.Close()
		goleak.VerifyNone(t, before)
		if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
}

func TestRestartKeepsDataAndAddress(t *testing.T) {
	c := etcdtest.Start(t, nil)
	client := c.Client(t)
	put(t, client, "kept", "yes")
	before := c.Member(0).Endpoint()
	c.Member(0).Stop()
	if c.Leader() != -1 {
		t.Error("a stopped member still leads")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := client.Get(ctx, "kept"); err == nil {
		t.Error("a stopped member answered")
	}
	restart(t, c.Member(0))
	if after := c.Member(0).Endpoint(); after != before {
		t.Errorf("endpoint was %s, is %s", before, after)
	}
	if got := get(t, client, "kept"); got != "yes" {
		t.Errorf("kept = %q after restart", got)
	}
}

func TestThreeMembersElectAgainWhenTheLeaderStops(t *testing.T) {
	c := etcdtest.Start(t, &etcdtest.Options{Members: 3})
	client := c.Client(t)
	put(t, client, "a", "1")
	first := c.Leader()
	c.Member(first).Stop()
	second, err := c.WaitLeader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if second == first {
		t.Errorf("member %d leads although it was stopped", first)
	}
	put(t, client, "a", "2")
	restart(t, c.Member(first))
	only := c.Client(t, etcdtest.At(c.Member(first).Endpoint()))
	if got := get(t, only, "a"); got != "2" {
		t.Errorf("the restarted member says a = %q", got)
	}
}

func TestIsolatedMemberServesNobodyUntilItRejoins(t *testing.T) {
	c := etcdtest.Start(t, &etcdtest.Options{Members: 3})
	follower := (c.Leader() + 1) % 3
	only := c.Client(t, etcdtest.At(c.Member(follower).Endpoint()))
	put(t, only, "a", "1")
	c.Member(follower).Isolate()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := only.Put(ctx, "a", "2"); err == nil {
		t.Error("an isolated member wrote")
	}
	put(t, c.Client(t, etcdtest.At(c.Member(c.Leader()).Endpoint())), "a", "3")
	c.Member(follower).Rejoin()
	put(t, only, "b", "1")
}

func TestTickSetsTheSmallestLease(t *testing.T) {
	for _, x := range []struct {
		tick time.Duration
		want int64
	}{{0, 2}, {50 * time.Millisecond, 1}} {
		client := etcdtest.Start(t, &etcdtest.Options{Tick: x.tick}).Client(t)
		lease, err := client.Grant(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if lease.TTL != x.want {
			t.Errorf("tick %v: asked for 1 s, granted %d s, want %d", x.tick, lease.TTL, x.want)
		}
	}
}

func TestCompactMakesOldRevisionsUnreadable(t *testing.T) {
	c := etcdtest.Start(t, nil)
	client := c.Client(t)
	put(t, client, "a", "1")
	put(t, client, "a", "2")
	rev, err := c.Compact(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Get(t.Context(), "a", clientv3.WithRev(rev-1)); err == nil {
		t.Errorf("revision %d can be read after compaction at %d", rev-1, rev)
	}
	if got := get(t, client, "a"); got != "2" {
		t.Errorf("a = %q", got)
	}
}

func TestTLSDemandsTheClientCertificate(t *testing.T) {
	c := etcdtest.Start(t, &etcdtest.Options{TLS: true})
	put(t, c.Client(t), "a", "1")
	bare := c.Client(t, func(cfg *clientv3.Config) { cfg.TLS.Certificates = nil })
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := bare.Get(ctx, "a"); err == nil {
		t.Error("a client without certificate was let in")
	}
	for _, f := range []string{c.Certificates().CAFile, c.Certificates().CertFile, c.Certificates().KeyFile} {
		if _, err := os.Stat(f); err != nil {
			t.Error(err)
		}
	}
}

func TestAuthLimitsUsersToTheirPrefix(t *testing.T) {
	c := etcdtest.Start(t, &etcdtest.Options{AuthTokenTTL: time.Second})
	user := etcdtest.User{Name: "app", Password: "secret", Prefix: "app/"}
	if err := c.EnableAuth(t.Context(), "rootpw", user); err != nil {
		t.Fatal(err)
	}
	put(t, c.Client(t), "elsewhere", "1")
	app := c.Client(t, etcdtest.As("app", "secret"))
	put(t, app, "app/x", "1")
	if _, err := app.Put(t.Context(), "elsewhere", "2"); err == nil {
		t.Error("app wrote outside of its prefix")
	}
	if _, err := c.Compact(t.Context()); err != nil {
		t.Errorf("compact with auth: %v", err)
	}
}

func TestAssertEmptyNamesWhatIsLeft(t *testing.T) {
	client := etcdtest.Start(t, nil).Client(t)
	etcdtest.AssertEmpty(t, client, "p/", 0)
	put(t, client, "p/left", "over")
	var r recorder
	etcdtest.AssertEmpty(&r, client, "p/", 50*time.Millisecond)
	if !strings.Contains(r.errors, "p/left = over") {
		t.Errorf("reported %q", r.errors)
	}
}

func TestBadOptionsAreRefusedByName(t *testing.T) {
	for field, o := range map[string]etcdtest.Options{
		"Members":      {Members: 2},
		"Tick":         {Tick: time.Microsecond},
		"AuthTokenTTL": {AuthTokenTTL: time.Millisecond},
	} {
		if _, err := etcdtest.New(t.Context(), &o); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
