package fileguard

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/guard"
)

func TestNewRefusesWhatMakesNoSense(t *testing.T) {
	dir := memoryDir(t)
	mustWrite(t, filepath.Join(dir, "file"), "")
	for _, sub := range []string{"linked", "linked/sub", "blocked"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("sub", filepath.Join(dir, "linked", marksDir)); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, filepath.Join(dir, "blocked", marksDir), "")
	for _, c := range []struct {
		names string // what the error must name
		dir   string
		o     *Options
	}{
		{"Options.MaxWait", dir, &Options{MaxWait: -time.Second}},
		{`no folder was given; use "." for the current one`, "", nil},
		{"missing", filepath.Join(dir, "missing"), nil},
		{"file", filepath.Join(dir, "file"), nil},
		{marksDir, filepath.Join(dir, "linked"), nil},
		{marksDir, filepath.Join(dir, "blocked"), nil},
	} {
		g, err := New(c.dir, c.o)
		if g != nil || err == nil || !strings.HasPrefix(err.Error(), "fileguard: ") || !strings.Contains(err.Error(), c.names) {
			t.Errorf("New(%s, %+v) = %v, %v; want an error that names %s", c.dir, c.o, g, err, c.names)
		}
	}
}

func TestZeroGuardReturnsErrors(t *testing.T) {
	for _, g := range []*Guard{{}, nil} {
		_, errHighest := g.Highest(t.Context(), "x")
		for op, err := range map[string]error{
			"WriteFile": g.WriteFile(t.Context(), "x", 5, "a", nil, 0o600), "Remove": g.Remove(t.Context(), "x", 5, "a"),
			"Write": g.Write(t.Context(), "x", 5, "a", 0o600, func(io.Writer) error { t.Error("fn ran"); return nil }),
			"Seal":  g.Seal(t.Context(), "x", 5), "Repair": g.Repair(t.Context(), "x", 5), "Highest": errHighest,
		} {
			if err == nil || err.Error() != "fileguard: this Guard was not made by New" {
				t.Errorf("%s: %v; want an error about New", op, err)
			}
		}
	}
}

// Locks and syncs of network file systems are promises of somebody else.
func TestNewRefusesANetworkFileSystemAndSaysWhy(t *testing.T) {
	for _, where := range []string{"the folder", "the folder of marks"} {
		dir := memoryDir(t)
		of := func(path string) (fileSystemType, error) {
			return fileSystemType{"NFS", (filepath.Base(path) == marksDir) == (where == "the folder of marks")}, nil
		}
		open := func() (disk, error) { return openDisk(dir) }
		_, err := newGuard(dir, nil, open, of)
		if err == nil || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), ". ") {
			t.Fatalf("%s on NFS: %v; want one sentence", where, err)
		}
		for _, word := range []string{"fileguard: " + dir, "NFS", "lock can be lost", "late writer", "Options.AllowNetworkFS"} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s on NFS: %v; want %q in it", where, err, word)
			}
		}
		if _, err := os.Stat(filepath.Join(dir, marksDir)); where == "the folder" && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the refused folder was written to: %v", err)
		}
		g, err := newGuard(dir, &Options{AllowNetworkFS: true}, open, of)
		if err != nil {
			t.Fatalf("%s on NFS, allowed: %v", where, err)
		}
		if err := g.Seal(t.Context(), account, 5); err != nil {
			t.Error(err)
		}
	}
	if _, err := newGuard(memoryDir(t), nil, func() (disk, error) { return openDisk(".") },
		func(string) (fileSystemType, error) { return fileSystemType{}, syscall.EIO }); !errors.Is(err, syscall.EIO) {
		t.Errorf("a file system that does not say what it is: %v; want its error", err)
	}
}

func TestGuardStaysAtItsFolderWhenTheProgramMoves(t *testing.T) {
	dir := memoryDir(t)
	t.Chdir(dir)
	g := mustNew(t, ".", nil)
	t.Chdir(t.TempDir())
	if err := g.WriteFile(t.Context(), account, 5, accountFile, []byte("5"), 0o600); err != nil {
		t.Error(err)
	}
	if got := content(t, dir, accountFile); got != "5" {
		t.Errorf("the file holds %q", got)
	}
}

// What can be seen to be wrong costs no I/O: here there is nothing to open.
func TestBadArgumentsAreRefusedWithoutIO(t *testing.T) {
	dir := memoryDir(t)
	g := mustNew(t, dir, nil)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for _, r := range []string{"", strings.Repeat("x", 513), "a\x00b", "\xff"} {
		_, errHighest := g.Highest(t.Context(), r)
		for op, err := range map[string]error{
			"WriteFile": g.WriteFile(t.Context(), r, 5, "a", nil, 0o600),
			"Remove":    g.Remove(t.Context(), r, 5, "a"),
			"Seal":      g.Seal(t.Context(), r, 5),
			"Repair":    g.Repair(t.Context(), r, 5),
			"Highest":   errHighest,
		} {
			if err == nil || !strings.Contains(err.Error(), "name") || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s on %.9q: %v; want an error about the name", op, r, err)
			}
		}
	}
	for _, tok := range []guard.Token{0, -1} {
		for op, err := range map[string]error{
			"WriteFile": g.WriteFile(t.Context(), account, tok, "a", nil, 0o600),
			"Remove":    g.Remove(t.Context(), account, tok, "a"),
			"Seal":      g.Seal(t.Context(), account, tok),
			"Repair":    g.Repair(t.Context(), account, tok),
		} {
			if !errors.Is(err, guard.ErrNoToken) {
				t.Errorf("%s with token %d: %v; want ErrNoToken", op, tok, err)
			}
		}
	}
	// Where it matters whether the folder is there, its absence is an error and not an unmarked resource.
	if high, err := g.Highest(t.Context(), account); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Highest without a folder = %d, %v", high, err)
	}
}

func TestOutcomesAreReportedOnceEach(t *testing.T) {
	type outcome struct {
		resource string
		tok      guard.Token
		err      error
	}
	var got []outcome
	key := struct{ string }{"key"}
	ctx := context.WithValue(t.Context(), key, true)
	g := mustNew(t, memoryDir(t), &Options{OnOutcome: func(ctx context.Context, resource string, tok guard.Token, err error) {
		if ctx.Value(key) == nil {
			t.Error("another context")
		}
		got = append(got, outcome{resource, tok, err})
	}})
	want := []outcome{
		{"a", 5, g.WriteFile(ctx, "a", 5, "a", nil, 0o600)},
		{"a", 4, g.WriteFile(ctx, "a", 4, "a", nil, 0o600)},
		{"a", 0, g.WriteFile(ctx, "a", 0, "a", nil, 0o600)},
		{"a", 5, g.WriteFile(ctx, "a", 5, "../a", nil, 0o600)},
		{"a", 6, g.Remove(ctx, "a", 6, "a")},
		{"a", 5, g.Remove(ctx, "a", 5, "a")},
		{"b", 5, g.Seal(ctx, "b", 5)},
		{"b", 4, g.Seal(ctx, "b", 4)},
		{"b", 7, g.Repair(ctx, "b", 7)},
	}
	if !slices.Equal(got, want) {
		t.Errorf("reported %v\nreturned %v", got, want)
	}
}
