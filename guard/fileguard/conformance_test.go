package fileguard

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/guardtest"
)

func TestFilesPassTheSuite(t *testing.T) {
	guardtest.Run(t, func(t *testing.T) guardtest.Store { return fileStore(t, memoryDir(t)) })
}

// fileStore is the suite's view of a guarded folder with a file for each resource.
func fileStore(t *testing.T, dir string) guardtest.Store {
	var current atomic.Pointer[Guard]
	current.Store(mustNew(t, dir, nil))
	fileOf := func(resource string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(resource))) }
	write := func(ctx context.Context, g *Guard, resource string, tok guard.Token, value string) error {
		return g.WriteFile(ctx, resource, tok, fileOf(resource), []byte(value), 0o600)
	}
	// failing is a write in a guard of its own, as in another process, in which one call fails.
	failing := func(at func(op, name string) bool) func(context.Context, string, guard.Token, string) error {
		return func(ctx context.Context, resource string, tok guard.Token, value string) error {
			begun, failed := false, false
			g := newHooked(t, dir, nil, func(op, name string) error {
				begun = begun || op == "write"
				if begun && !failed && at(op, name) {
					failed = true
					return syscall.EIO
				}
				return nil
			})
			err := write(ctx, g, resource, tok, value)
			if !failed {
				t.Errorf("nothing failed in the write of %q", resource)
			}
			return err
		}
	}
	return guardtest.Store{
		Sealer: swapped{&current},
		Write: func(ctx context.Context, resource string, tok guard.Token, value string) error {
			return write(ctx, current.Load(), resource, tok, value)
		},
		Read: func(_ context.Context, resource string) (string, error) {
			b, err := os.ReadFile(filepath.Join(dir, fileOf(resource)))
			if errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
			return string(b), err
		},
		Delete: func(ctx context.Context, resource string, tok guard.Token) error {
			return current.Load().Remove(ctx, resource, tok, fileOf(resource))
		},
		Restart: func(context.Context) error { // all that a process keeps is in its Guard
			g, err := New(dir, nil)
			current.Store(g)
			return err
		},
		// The new content has its name, and whether that is on the disk nobody can say.
		LoseReply: failing(func(op, name string) bool { return op == "sync" && name == "." }),
		// The disk does not take the content.
		LoseRequest: failing(func(op, name string) bool { return op == "sync" }),
		Busy:        func(err error) bool { return errors.Is(err, ErrBusy) },
	}
}

// swapped is the guard of the process that runs at the moment.
type swapped struct{ g *atomic.Pointer[Guard] }

func (s swapped) Seal(ctx context.Context, resource string, tok guard.Token) error {
	return s.g.Load().Seal(ctx, resource, tok)
}

func (s swapped) Highest(ctx context.Context, resource string) (guard.Token, error) {
	return s.g.Load().Highest(ctx, resource)
}
