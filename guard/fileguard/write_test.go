package fileguard

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fencedlock/fencedlock/guard"
)

func TestNamesCannotLeadOutOfTheFolder(t *testing.T) {
	outside := memoryDir(t)
	dir := filepath.Join(outside, "guarded")
	for _, sub := range []string{"guarded", "guarded/sub", "other"} {
		if err := os.Mkdir(filepath.Join(outside, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"up": "..", "other": "../other", "absolute": filepath.Join(outside, "other"), "inside": "sub"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	g := mustNew(t, dir, nil)
	for _, name := range []string{"", ".", "..", "/", "../x", "/x", filepath.Join(outside, "x"), "sub/../../x", "./x", "sub//x", "sub/", "sub/../x", "a\x00b",
		"up/x", "other/x", "absolute/x", "up/other/x", marksDir, marksDir + "/x", ".FencedLock/x", "missing/x", "sub"} {
		if err := g.WriteFile(t.Context(), account, 5, name, []byte("x"), 0o600); err == nil || errors.Is(err, guard.ErrUnknown) {
			t.Errorf("WriteFile(%q) = %v; want an error", name, err)
		}
		if err := g.Remove(t.Context(), account, 5, name); (err == nil) != (name == "missing/x") || errors.Is(err, guard.ErrUnknown) {
			t.Errorf("Remove(%q) = %v; want an error", name, err)
		}
	}
	// The same folder where cases are folded, and that of a guard further in, which may come later.
	for _, name := range []string{marksDir, marksDir + "/x", ".FencedLock/x", "sub/" + marksDir, "sub/.FENCEDLOCK/x"} {
		if err := g.WriteFile(t.Context(), account, 5, name, nil, 0o600); err == nil || !strings.Contains(err.Error(), "for marks only") {
			t.Errorf("WriteFile(%q) = %v; want an error about the marks", name, err)
		}
	}
	err := fs.WalkDir(os.DirFS(outside), ".", func(path string, e fs.DirEntry, err error) error {
		if filepath.Base(path) == "x" {
			t.Errorf("somebody made %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"x", "sub/x", "inside/y", "..x", ".x", "sub/" + marksDir + "s", "é 鍵"} {
		if err := g.WriteFile(t.Context(), account, 5, name, []byte(name), 0o600); err != nil || content(t, dir, name) != name {
			t.Errorf("WriteFile(%q) = %v", name, err)
		}
		if err := g.Remove(t.Context(), account, 5, name); err != nil {
			t.Errorf("Remove(%q) = %v", name, err)
		}
	}
}

// A link that has the name of the file is replaced: what it leads to is not the guard's.
func TestLinkIsReplacedAndNotFollowed(t *testing.T) {
	dir, outside := memoryDir(t), filepath.Join(t.TempDir(), "outside")
	mustWrite(t, outside, "kept")
	g := mustNew(t, dir, nil)
	for _, op := range []func() error{
		func() error { return g.WriteFile(t.Context(), account, 5, "link", []byte("new"), 0o600) },
		func() error { return g.Remove(t.Context(), account, 5, "link") },
	} {
		if err := errors.Join(os.RemoveAll(filepath.Join(dir, "link")), os.Symlink(outside, filepath.Join(dir, "link"))); err != nil {
			t.Fatal(err)
		}
		if err := op(); err != nil {
			t.Error(err)
		}
		if info, err := os.Lstat(filepath.Join(dir, "link")); err == nil && !info.Mode().IsRegular() {
			t.Errorf("it is still %v", info.Mode())
		}
		if b, err := os.ReadFile(outside); string(b) != "kept" || err != nil {
			t.Errorf("outside there is %q, %v", b, err)
		}
	}
}

func TestPermissionsAreThoseAskedFor(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	dir := memoryDir(t)
	g := mustNew(t, dir, nil)
	for _, perm := range []fs.FileMode{0o644, 0o600, 0o444, 0o666, 0} {
		if err := g.WriteFile(t.Context(), account, 5, accountFile, nil, perm); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(filepath.Join(dir, accountFile)); err != nil || info.Mode() != perm {
			t.Errorf("asked for %v: %v, %v", perm, info.Mode(), err)
		}
	}
	for _, perm := range []fs.FileMode{fs.ModeSetuid | 0o755, fs.ModeDir, 0o1777, 0o4755} {
		if err := g.WriteFile(t.Context(), account, 5, accountFile, nil, perm); err == nil || !strings.Contains(err.Error(), "perm") {
			t.Errorf("asked for %v: %v; want an error that names perm", perm, err)
		}
	}
}

// Content is the whole of what fn has written without an error, or the file stays as it was.
func TestContentThatWasNotFinishedIsNotSeen(t *testing.T) {
	dir := memoryDir(t)
	full := false
	g := newHooked(t, dir, nil, func(op, name string) error {
		if full && op == "write" && strings.HasPrefix(filepath.Base(name), tempPrefix) {
			return syscall.ENOSPC
		}
		return nil
	})
	if err := g.WriteFile(t.Context(), account, 5, accountFile, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	ctx, cancel := context.WithCancelCause(t.Context())
	for name, c := range map[string]struct {
		want error
		fn   func(w io.Writer) error
	}{
		"fn's error":          {boom, func(io.Writer) error { return boom }},
		"full, and passed on": {syscall.ENOSPC, func(w io.Writer) error { full = true; _, err := io.WriteString(w, "n"); return err }},
		"full, and passed over": {syscall.ENOSPC, func(w io.Writer) error {
			full = true
			io.WriteString(w, "n")
			full = false
			io.WriteString(w, "ew") // must not become the content
			return nil
		}},
	} {
		full = false
		err := g.Write(t.Context(), account, 6, accountFile, 0o600, func(w io.Writer) error {
			io.WriteString(w, "begun")
			return c.fn(w)
		})
		if err == nil || c.want != nil && !errors.Is(err, c.want) || errors.Is(err, guard.ErrUnknown) {
			t.Errorf("%s: %v; want %v", name, err, c.want)
		}
	}
	full = false
	err := g.Write(ctx, account, 6, accountFile, 0o600, func(w io.Writer) error {
		cancel(boom)
		_, err := io.WriteString(w, "new")
		return err
	})
	if !errors.Is(err, context.Canceled) || !errors.Is(err, boom) {
		t.Errorf("cancelled in fn: %v; want the context's error and its cause", err)
	}
	ctx, cancel = context.WithCancelCause(t.Context())
	err = g.Write(ctx, account, 6, accountFile, 0o600, func(w io.Writer) error {
		_, err := io.WriteString(w, "new")
		cancel(boom)
		return err
	})
	if !errors.Is(err, context.Canceled) || !errors.Is(err, boom) || errors.Is(err, guard.ErrUnknown) {
		t.Errorf("cancelled at the end of fn: %v; want the context's error and its cause", err)
	}
	func() {
		defer func() {
			if r := recover(); r != "boom" {
				t.Errorf("recovered %v", r)
			}
		}()
		_ = g.Write(t.Context(), account, 6, accountFile, 0o600, func(io.Writer) error { panic("boom") })
	}()
	if err := g.Write(t.Context(), account, 6, accountFile, 0o600, nil); err == nil {
		t.Error("a nil fn was accepted")
	}
	if got, left := content(t, dir, accountFile), leftovers(t, dir); got != "old" || left != nil {
		t.Errorf("the file holds %q, unfinished are %q", got, left)
	}
	if high, err := g.Highest(t.Context(), account); high != 5 || err != nil {
		t.Errorf("Highest = %d, %v; want 5", high, err)
	}
}

// What is written after fn has returned would be renamed into place without having been synced.
func TestWriterEndsWithTheFunctionThatGotIt(t *testing.T) {
	dir := memoryDir(t)
	var kept io.Writer
	tried := false
	g := newHooked(t, dir, nil, func(op, name string) error {
		if op == "rename" && name == accountFile {
			tried = true
			if n, err := io.WriteString(kept, "late"); n != 0 || err == nil {
				t.Errorf("writing after fn: %d, %v; want an error", n, err)
			}
		}
		return nil
	})
	err := g.Write(t.Context(), account, 5, accountFile, 0o600, func(w io.Writer) error {
		kept = w
		_, err := io.WriteString(w, "in time")
		return err
	})
	if got := content(t, dir, accountFile); err != nil || got != "in time" || !tried {
		t.Errorf("Write = %v, the file holds %q", err, got)
	}
}

// Whoever is known to be late does not write a gigabyte first.
func TestLateWriterIsRefusedBeforeItWrites(t *testing.T) {
	g := mustNew(t, memoryDir(t), nil)
	if err := g.Seal(t.Context(), account, 9); err != nil {
		t.Fatal(err)
	}
	err := g.Write(t.Context(), account, 5, accountFile, 0o600, func(io.Writer) error { t.Error("fn ran"); return nil })
	if !errors.Is(err, guard.ErrStale) {
		t.Errorf("Write = %v; want ErrStale", err)
	}
}

// The decision is the one under the lock: who becomes late while it writes is refused.
func TestWriterWhoseSuccessorSealsMeanwhileIsRefused(t *testing.T) {
	dir := memoryDir(t)
	g := mustNew(t, dir, nil)
	err := g.Write(t.Context(), account, 5, accountFile, 0o600, func(w io.Writer) error {
		if err := mustNew(t, dir, nil).Seal(t.Context(), account, 9); err != nil {
			t.Error(err)
		}
		_, err := io.WriteString(w, "5")
		return err
	})
	var stale *guard.StaleError
	if !errors.As(err, &stale) || stale.Highest != 9 {
		t.Errorf("Write = %v; want stale by 9", err)
	}
	if got, left := content(t, dir, accountFile), leftovers(t, dir); got != "" || left != nil {
		t.Errorf("the file holds %q, unfinished are %q", got, left)
	}
}

func TestWriteOntoAFolderSaysThatItIsOne(t *testing.T) {
	dir := memoryDir(t)
	g := mustNew(t, dir, nil)
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	for op, err := range map[string]error{"WriteFile": g.WriteFile(t.Context(), account, 5, "sub", nil, 0o600), "Remove": g.Remove(t.Context(), account, 5, "sub")} {
		if err == nil || !strings.Contains(err.Error(), `"sub", nothing was changed: it is a folder`) || errors.Is(err, guard.ErrUnknown) {
			t.Errorf("%s on a folder: %v", op, err)
		}
	}
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}
