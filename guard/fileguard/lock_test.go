package fileguard

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// take has the lock of a resource, as another process has it.
func take(t testing.TB, dir, resource string) file {
	t.Helper()
	d, err := openDisk(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	f, err := tryLock(d, lockName(resource))
	if err != nil || f == nil {
		t.Fatalf("the lock of %q: %v, %v", resource, f, err)
	}
	return f
}

func TestWaitForTheLockEndsWithoutADeadline(t *testing.T) {
	dir := memoryDir(t)
	mustNew(t, dir, nil)
	defer take(t, dir, account).Close()
	who := "somebody"
	if runtime.GOOS == "linux" {
		who = "this process"
	}
	for wait, o := range map[time.Duration]*Options{10 * time.Second: nil, time.Minute: {MaxWait: time.Minute}} {
		synctest.Test(t, func(t *testing.T) {
			g := mustNew(t, dir, o)
			start := time.Now()
			err := g.WriteFile(t.Context(), account, 5, accountFile, []byte("5"), 0o600)
			if waited := time.Since(start); !errors.Is(err, ErrBusy) || waited != wait {
				t.Errorf("after %v: %v; want ErrBusy after %v", waited, err, wait)
			}
			if err == nil || !strings.Contains(err.Error(), who+" had the lock") {
				t.Errorf("%v; want it to say that %s had the lock", err, who)
			}
		})
	}
	if got := content(t, dir, accountFile); got != "" || leftovers(t, dir) != nil {
		t.Errorf("the file holds %q, unfinished are %q", got, leftovers(t, dir))
	}
}

// A lock on a file that has lost its name excludes nobody, as the next one locks another file:
// https://github.com/caddyserver/certmagic/issues/169
func TestLockOnAFileThatWasReplacedIsNoLock(t *testing.T) {
	dir := memoryDir(t)
	path := filepath.Join(dir, lockName(account))
	for name, between := range map[string]func() error{
		"removed":  func() error { return os.Remove(path) },
		"replaced": func() error { return errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			var other file
			g := newHooked(t, dir, &Options{MaxWait: 20 * time.Millisecond}, func(op, lock string) error {
				if op == "lock" && lock == lockName(account) && other == nil { // it is open already
					if err := between(); err != nil {
						return err
					}
					other = take(t, dir, account)
				}
				return nil
			})
			if err := g.Seal(t.Context(), account, 5); !errors.Is(err, ErrBusy) {
				t.Errorf("Seal while another has the lock: %v; want ErrBusy", err)
			}
			if err := other.Close(); err != nil {
				t.Fatal(err)
			}
			if err := g.Seal(t.Context(), account, 5); err != nil {
				t.Error(err)
			}
		})
	}
}

// The lock stays when it was used, or the next two would lock different files.
func TestLockFileIsNeverDeleted(t *testing.T) {
	dir := memoryDir(t)
	g := mustNew(t, dir, nil)
	path := filepath.Join(dir, lockName(account))
	var first os.FileInfo
	for name, op := range map[string]func() error{
		"Seal":      func() error { return g.Seal(t.Context(), account, 5) },
		"WriteFile": func() error { return g.WriteFile(t.Context(), account, 5, accountFile, nil, 0o600) },
		"Remove":    func() error { return g.Remove(t.Context(), account, 5, accountFile) },
		"Repair":    func() error { return g.Repair(t.Context(), account, 5) },
		"New":       func() error { _, err := New(dir, nil); return err },
	} {
		if err := op(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		info, err := os.Stat(path)
		if first == nil {
			first = info
		}
		if name != "New" && (err != nil || !os.SameFile(info, first)) {
			t.Errorf("after %s the lock's file is another: %v", name, err)
		}
	}
}

// Several guards, as in several processes: flock excludes goroutines as it excludes processes.
func TestStepsOfOneResourceDoNotOverlap(t *testing.T) {
	dir := memoryDir(t)
	var inside, steps atomic.Int32
	var wg sync.WaitGroup
	for range 4 {
		g := mustNew(t, dir, nil)
		wg.Go(func() {
			for range 25 {
				d, err := g.begin(t.Context(), account, 1)
				if err != nil {
					t.Error(err)
					return
				}
				err = g.step(t.Context(), d, account, 1, func() error {
					if n := inside.Add(1); n != 1 {
						t.Errorf("%d are inside", n)
					}
					time.Sleep(100 * time.Microsecond)
					inside.Add(-1)
					steps.Add(1)
					return nil
				})
				if err := errors.Join(err, d.Close()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := steps.Load(); n != 100 {
		t.Errorf("%d steps; want 100", n)
	}
}
