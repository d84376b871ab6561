package fileguard

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/fencedlock/fencedlock/internal/child"
)

func TestMain(m *testing.M) {
	child.Main(map[string]child.Role{"worker": worker, "killed": killed})
	goleak.VerifyTestMain(m)
}

func mustNew(t testing.TB, dir string, o *Options) *Guard {
	t.Helper()
	g, err := New(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// content returns what a file holds, "" if it is not there.
func content(t testing.TB, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(b)
}

// leftovers lists the unfinished contents.
func leftovers(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, marksDir))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), tempPrefix) {
			names = append(names, e.Name())
		}
	}
	return names
}

// mustWrite writes the whole of a file as os.WriteFile does, past the guard.
func mustWrite(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// memoryDir returns a folder in memory, where there is one: syncing costs nothing there, and what only tests the order of
// things need not wait for a disk.
func memoryDir(t testing.TB) string {
	t.Helper()
	if _, err := os.Stat("/dev/shm"); err != nil {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp("/dev/shm", "fileguard-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
