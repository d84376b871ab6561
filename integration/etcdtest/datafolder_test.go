package etcdtest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
)

func TestMemberServesAnOlderCopyOfItsData(t *testing.T) {
	c := etcdtest.Start(t, nil)
	m, client := c.Member(0), c.Client(t)
	put(t, client, "a", "older")
	m.Stop()
	backup := filepath.Join(t.TempDir(), "backup")
	if err := os.CopyFS(backup, os.DirFS(m.DataDir())); err != nil {
		t.Fatal(err)
	}
	restart(t, m)
	put(t, client, "a", "newer")
	m.Stop()
	if err := os.RemoveAll(m.DataDir()); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(m.DataDir(), os.DirFS(backup)); err != nil {
		t.Fatal(err)
	}
	restart(t, m)
	if got := get(t, client, "a"); got != "older" {
		t.Errorf("a = %q", got)
	}
}
