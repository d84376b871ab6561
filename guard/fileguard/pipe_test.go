package fileguard

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/guard"
)

// inTime fails when op waits for a pipe, and lets it go on then.
func inTime(t *testing.T, pipe string, op func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- op() }()
	select {
	case err := <-done:
		return err
	case <-time.After(5 * time.Second):
	}
	t.Errorf("it waits for somebody who writes to %s", pipe)
	f, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return <-done
}

// Opening a pipe waits in the kernel for the other side, whatever becomes of the context.
func TestPipeInTheWayIsNotWaitedFor(t *testing.T) {
	for name, c := range map[string]struct {
		pipe string
		op   func(ctx context.Context, g *Guard) error // nil: New
		fine bool
	}{
		"as the folder of a file, writing":  {"pipe", func(ctx context.Context, g *Guard) error { return g.WriteFile(ctx, account, 5, "pipe/x", nil, 0o600) }, false},
		"as the folder of a file, removing": {"pipe", func(ctx context.Context, g *Guard) error { return g.Remove(ctx, account, 5, "pipe/x") }, false},
		"as the file":                       {"pipe", func(ctx context.Context, g *Guard) error { return g.WriteFile(ctx, account, 5, "pipe", nil, 0o600) }, true},
		"as the lock":                       {lockName(account), func(ctx context.Context, g *Guard) error { return g.Seal(ctx, account, 5) }, false},
		"as the new mark":                   {markName(account) + ".new", func(ctx context.Context, g *Guard) error { return g.Seal(ctx, account, 5) }, true},
		"as an unfinished content":          {marksDir + "/" + tempPrefix + "x", nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := memoryDir(t)
			g := mustNew(t, dir, nil)
			pipe := filepath.Join(dir, c.pipe)
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := inTime(t, pipe, func() error {
				if c.op == nil {
					_, err := New(dir, nil)
					return err
				}
				return c.op(ctx, g)
			})
			if (err == nil) != c.fine || errors.Is(err, guard.ErrUnknown) {
				t.Errorf("%v; want an error: %v", err, !c.fine)
			}
		})
	}
	for name, c := range map[string]struct {
		pipe string
		op   func(g *Guard) error // nil: New
	}{
		"as the guarded folder, for New": {"guarded", nil},
		"as the guarded folder, later":   {"guarded", func(g *Guard) error { return g.Seal(t.Context(), account, 5) }},
		"as the folder of marks":         {"guarded/" + marksDir, func(g *Guard) error { return g.Seal(t.Context(), account, 5) }},
	} {
		t.Run(name, func(t *testing.T) {
			dir := memoryDir(t)
			guarded, pipe := filepath.Join(dir, "guarded"), filepath.Join(dir, c.pipe)
			if err := os.Mkdir(guarded, 0o700); err != nil {
				t.Fatal(err)
			}
			g := mustNew(t, guarded, nil)
			if err := errors.Join(os.RemoveAll(pipe), syscall.Mkfifo(pipe, 0o600)); err != nil {
				t.Fatal(err)
			}
			if err := inTime(t, pipe, func() error {
				if c.op == nil {
					_, err := New(guarded, nil)
					return err
				}
				return c.op(g)
			}); err == nil || errors.Is(err, guard.ErrUnknown) {
				t.Errorf("%v; want an error", err)
			}
		})
	}
}

// What no writer has made is no leftover, and is in nobody's way.
func TestNewLeavesAloneWhatOnlyHasTheNameOfAnUnfinishedContent(t *testing.T) {
	dir := memoryDir(t)
	mustNew(t, dir, nil)
	temp := filepath.Join(dir, marksDir, tempPrefix)
	if err := errors.Join(os.MkdirAll(temp+"folder/sub", 0o700), os.Symlink("../..", temp+"out"), os.Symlink("nowhere", temp+"dangling")); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, temp+"killed", "half a cont")
	mustNew(t, dir, nil)
	if l := leftovers(t, dir); len(l) != 3 || strings.Contains(strings.Join(l, " "), "killed") {
		t.Errorf("there are %q; want the folder and the two links", l)
	}
}

// A link as the lock's file would be locked under another name, and be taken for one that somebody else has, for good.
func TestLockThatIsNoFileIsAnErrorAndNotBusy(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"folder":         func(p string) error { return os.Mkdir(p, 0o700) },
		"link":           func(p string) error { return os.Symlink("../x", p) },
		"link to out":    func(p string) error { return os.Symlink("../../x", p) },
		"link to a file": func(p string) error { return os.Symlink("../"+accountFile, p) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := memoryDir(t)
			g := mustNew(t, dir, &Options{MaxWait: time.Minute})
			mustWrite(t, filepath.Join(dir, accountFile), "old")
			if err := put(filepath.Join(dir, lockName(account))); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			err := g.WriteFile(ctx, account, 5, accountFile, []byte("new"), 0o600)
			if err == nil || !strings.Contains(err.Error(), "no regular file") || !strings.Contains(err.Error(), lockName(account)) {
				t.Errorf("WriteFile: %v; want an error that names the lock's file and what it is", err)
			}
			if _, err := os.Lstat(filepath.Join(dir, "x")); !os.IsNotExist(err) {
				t.Errorf("where the link leads to: %v; want nothing", err)
			}
			if got := content(t, dir, accountFile); got != "old" || leftovers(t, dir) != nil {
				t.Errorf("the file holds %q, left behind: %q", got, leftovers(t, dir))
			}
		})
	}
}
