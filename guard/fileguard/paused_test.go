package fileguard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/internal/child"
)

// worker is a holder with token 5 that waits for a line before its write, in the middle of it, or inside the lock, as
// Args[1] says. "plain" is one that writes past the guard.
func worker(s *child.Self) error {
	dir, where := s.Args[0], s.Args[1]
	inLock := false
	pause := func() { s.Say("paused"); s.Command() }
	g, err := newGuard(dir, nil, func() (disk, error) {
		d, err := openDisk(dir)
		return hooked{d, func(op, name string) error {
			if where == "inside the lock" && op == "rename" && name == accountFile && !inLock {
				inLock = true
				pause()
			}
			return nil
		}}, err
	}, fileSystemOf)
	if err != nil {
		return err
	}
	switch where {
	case "plain":
		pause() // the holder has looked at its lease, and is stopped here
		temp := filepath.Join(dir, "temp")
		err = errors.Join(os.WriteFile(temp, []byte("5"), 0o600), os.Rename(temp, filepath.Join(dir, accountFile)))
	case "before the write":
		pause()
		err = g.WriteFile(context.Background(), account, 5, accountFile, []byte("5"), 0o600)
	case "in the middle":
		err = g.Write(context.Background(), account, 5, accountFile, 0o600, func(w io.Writer) error {
			pause()
			_, err := io.WriteString(w, "5")
			return err
		})
	default:
		err = g.WriteFile(context.Background(), account, 5, accountFile, []byte("5"), 0o600)
	}
	s.Say("ended %v", err)
	return nil
}

// The holder is stopped, its lease ends, its successor writes, and it goes on with its next instruction:
// https://github.com/etcd-io/etcd/issues/10811, https://jepsen.io/blog/2020-01-30-etcd-3.4.3,
// https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html
func TestPausedHolderCannotOverwriteItsSuccessor(t *testing.T) {
	for where, want := range map[string]struct{ content, says string }{
		"before the write": {"9", "9 has been seen"},
		"in the middle":    {"9", "9 has been seen"},
		"plain":            {"5", "<nil>"}, // the same without a guard: the successor's write is gone
	} {
		t.Run(where, func(t *testing.T) {
			dir := t.TempDir()
			p := child.Start(t, "worker", dir, where)
			p.Expect("paused", 30*time.Second)
			p.Stop()
			if err := mustNew(t, dir, nil).WriteFile(t.Context(), account, 9, accountFile, []byte("9"), 0o600); err != nil {
				t.Fatal(err)
			}
			p.Continue()
			p.Send("go on")
			if got := p.Expect("ended", 30*time.Second); !strings.Contains(got, want.says) {
				t.Errorf("the paused holder was told %s; want %q", got, want.says)
			}
			if got := content(t, dir, accountFile); got != want.content {
				t.Errorf("the file holds %q; want %q", got, want.content)
			}
		})
	}
}

// flock has no time limit: who is stopped inside it blocks its successors. They must not wait for ever, and must learn whom
// to continue or to kill: https://github.com/caddyserver/caddy/issues/4448
func TestHolderStoppedInsideTheLockIsNamed(t *testing.T) {
	for _, end := range []string{"continued", "killed"} {
		t.Run(end, func(t *testing.T) {
			dir := t.TempDir()
			p := child.Start(t, "worker", dir, "inside the lock")
			p.Expect("paused", 30*time.Second)
			p.Stop()
			g := mustNew(t, dir, &Options{MaxWait: 50 * time.Millisecond})
			who := "somebody"
			if runtime.GOOS == "linux" {
				who = fmt.Sprintf("process %d had the lock", p.PID())
			}
			err := g.Seal(t.Context(), account, 9)
			if !errors.Is(err, ErrBusy) || errors.Is(err, guard.ErrUnknown) || !strings.Contains(fmt.Sprint(err), who) {
				t.Errorf("Seal: %v; want ErrBusy and %q", err, who)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			err = newHooked(t, dir, nil, func(op, name string) error {
				if op == "lock" && name == lockName(account) {
					cancel() // while it waits
				}
				return nil
			}).WriteFile(ctx, account, 9, accountFile, []byte("9"), 0o600)
			if !errors.Is(err, context.Canceled) || errors.Is(err, ErrBusy) || !strings.Contains(fmt.Sprint(err), who) {
				t.Errorf("WriteFile that is cancelled: %v; want the context's error and %q", err, who)
			}
			if err := g.WriteFile(t.Context(), "another", 1, "another.json", nil, 0o600); err != nil {
				t.Errorf("another resource: %v", err)
			}
			if got := content(t, dir, accountFile); got != "" {
				t.Errorf("meanwhile the file holds %q", got)
			}
			want := "5"
			if end == "killed" {
				p.Kill()
				want = ""
			} else {
				p.Continue()
				p.Send("go on")
				if got := p.Expect("ended", 30*time.Second); got != "<nil>" {
					t.Errorf("the stopped holder: %s; nobody came in between", got)
				}
			}
			if err := g.Seal(t.Context(), account, 9); err != nil {
				t.Errorf("once the lock is free: %v", err)
			}
			if got := content(t, dir, accountFile); got != want {
				t.Errorf("the file holds %q; want %q", got, want)
			}
			if l := leftovers(t, dir); end == "continued" && l != nil {
				t.Errorf("left behind: %q", l)
			}
		})
	}
}
