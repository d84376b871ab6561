//go:build unix

package integration

import (
	"context"
	"io"
	"os"
	"os/exec"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/internal/daemon"
)

// findEtcdutl returns the path of etcd's tool for its data.
func findEtcdutl(t *testing.T) string {
	t.Helper()
	path := daemon.FindTool("bin/etcdutl")
	if path == "" {
		daemon.Unavailable(t, daemon.NotInstalledError("etcdutl is not installed; scripts/setup builds it"))
	}
	return path
}

// offline stops the only member, changes its data folder and starts it again.
func offline(t *testing.T, c *etcdtest.Cluster, change func(dir string) error) {
	t.Helper()
	m := c.Member(0)
	m.Stop()
	if err := change(m.DataDir()); err != nil {
		t.Fatal(err)
	}
	if err := m.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.WaitLeader(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// save writes a snapshot, as etcdctl snapshot save does.
func save(t *testing.T, client *clientv3.Client, path string) {
	t.Helper()
	r, err := client.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.Copy(f, r); err != nil {
		t.Fatal(err)
	}
}

// restore replaces the data of the only member by a snapshot.
func restore(t *testing.T, etcdutl string, c *etcdtest.Cluster, snapshot string, more ...string) {
	t.Helper()
	offline(t, c, func(dir string) error {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		args := append([]string{"snapshot", "restore", snapshot}, c.Member(0).RestoreFlags()...)
		out, err := exec.CommandContext(context.WithoutCancel(t.Context()), etcdutl, append(args, more...)...).CombinedOutput()
		if err != nil {
			t.Logf("%s", out)
		}
		return err
	})
}
