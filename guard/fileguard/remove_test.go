package fileguard

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/fencedlock/fencedlock/guard"
)

// A file whose folder has gone is not there, and whoever removed the folder may have been killed before that was on the disk.
func TestRemoveOfAFileWhoseFolderIsMissingMakesItsAbsenceDurable(t *testing.T) {
	dir := memoryDir(t)
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	var synced []string
	broken := ""
	g := newHooked(t, dir, nil, func(op, name string) error {
		if op != "sync" || strings.HasPrefix(name, marksDir) {
			return nil
		}
		synced = append(synced, name)
		if name == broken {
			return syscall.EIO
		}
		return nil
	})
	for name, want := range map[string]string{"nowhere/x": ".", "nowhere/at/all/x": ".", "sub/nowhere/x": "sub", "sub/x": "sub", "x": "."} {
		synced, broken = nil, ""
		if err := g.Remove(t.Context(), account, 5, name); err != nil || !slices.Equal(synced, []string{want}) {
			t.Errorf("Remove(%s) = %v, synced %q; want nil and %s", name, err, synced, want)
		}
		broken = want
		if err := g.Remove(t.Context(), account, 5, name); !errors.Is(err, guard.ErrUnknown) {
			t.Errorf("Remove(%s) when syncing fails: %v; want ErrUnknown", name, err)
		}
	}
	if err := g.Remove(t.Context(), account, 4, "nowhere/x"); !errors.Is(err, guard.ErrStale) {
		t.Errorf("a late Remove: %v; want ErrStale", err)
	}
}
