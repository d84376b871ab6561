package etcdguard_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/integration/etcdtest"
)

// An etcd that is restored from a backup gives out its revisions a second time, and has forgotten the highest tokens:
// https://github.com/etcd-io/etcd/issues/16028, https://github.com/kubernetes/kubernetes/issues/89595. So it is with a
// member that has fallen behind and lies about it: https://github.com/etcd-io/etcd/issues/13766.
func TestRestoredEtcdLetsNoLowerTokenIn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	own := etcdtest.Start(t, &etcdtest.Options{Dir: dir})
	client := own.Client(t)
	before, fresh := newGuard(t, client, "/"), newGuard(t, client, "/") // one has lived through it, one has not
	mustDo(t, before, "r", 5)

	found, err := filepath.Glob(filepath.Join(dir, "*", "m0"))
	if err != nil || len(found) != 1 {
		t.Fatalf("data folders: %v, %v", found, err)
	}
	member, data, backup := own.Member(0), found[0], filepath.Join(dir, "backup")
	move := func(do func() error) {
		t.Helper()
		member.Stop()
		if err := do(); err != nil {
			t.Fatal(err)
		}
		if err := member.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	restore := func() error { return errors.Join(os.RemoveAll(data), os.CopyFS(data, os.DirFS(backup))) }
	move(func() error { return os.CopyFS(backup, os.DirFS(data)) })
	revision := func() int64 {
		t.Helper()
		resp, err := client.Get(t.Context(), "/marks/r")
		if err != nil {
			t.Fatal(err)
		}
		return resp.Kvs[0].ModRevision
	}

	mustDo(t, before, "r", 9, clientv3.OpPut("data", "before"))
	known := revision()
	move(restore)
	expectMark(t, fresh, "r", 5)

	// Another holder's write gets the revision that the first guard remembers.
	mustDo(t, fresh, "r", 12, clientv3.OpPut("data", "after"))
	if got := revision(); got != known {
		t.Fatalf("the mark has revision %d, and had %d before; the test needs the same", got, known)
	}
	if err := before.Do(t.Context(), "r", 9, clientv3.OpPut("data", "late")); err == nil {
		t.Error("the holder from before was let in")
	}
	var stale *guard.StaleError
	if err := before.Do(t.Context(), "r", 9, clientv3.OpPut("data", "late")); !errors.As(err, &stale) || stale.Highest != 12 {
		t.Errorf("the holder from before, once more: %v; want stale by 12", err)
	}
	expectMark(t, fresh, "r", 12)

	// A guard that has seen a higher token does not forget it with the storage.
	move(restore)
	expectMark(t, before, "r", 5)
	before.Age(time.Minute) // this time the restore took as long as restores take
	stale = nil
	if err := before.Do(t.Context(), "r", 11); !errors.As(err, &stale) || stale.Highest != 12 {
		t.Errorf("after the second restore, 11: %v; want stale by 12, which was seen before it", err)
	}
	mustDo(t, before, "r", 12)
}
