package fileguard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/fencedlock/fencedlock/guard"
)

// WriteFile makes data the content of the file name, guarded by tok: [Guard.Write] with all of the content at hand.
func (g *Guard) WriteFile(ctx context.Context, resource string, tok guard.Token, name string, data []byte, perm fs.FileMode) error {
	return g.Write(ctx, resource, tok, name, perm, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// Write makes what fn writes to w the content of the file name, guarded by tok. Nobody sees any of it before fn has
// returned nil; then the file is replaced as a whole. Once Write has returned nil, the content is on the disk, and no call
// with a lower token for the resource changes anything any more.
//
// name is relative to the guarded folder, with slashes and in its shortest form ("a/b", not "./a/b"); it cannot lead out of
// the folder, neither by ".." nor by symbolic links, nor to the marks of this guard or of one on a folder further in: no
// part of it can be ".fencedlock", in any case. A resource may have any number of files; a file belongs to one resource and
// is written by guards on one folder, or it is not guarded. The folder that it is in must exist, be durable itself, and be
// on the file system of the guarded folder; the one that has the name under the lock is taken. The file is a new one each
// time: it has the permissions perm exactly, without regard to the umask, and the owner, links and attributes that new files
// get. A symbolic link that has the name is replaced.
//
// fn runs without the lock, however long it takes, and once. The token is looked at before, so that a writer that is
// known to be late does not write much for nothing, and decided on afterwards, under the lock. fn does not keep w; when
// a Write to w has failed, so does Write, whatever fn returns. When fn panics, nothing was changed, and the panic goes on.
//
// The error is one of these:
//   - a [*guard.StaleError] if the resource has seen a higher token;
//   - one that wraps [guard.ErrNoToken], or [guard.CheckResource]'s, without any I/O;
//   - one that wraps [guard.ErrUnknown] if the content was renamed into place and syncing the folder failed: readers see the
//     new content, and after a power failure it may be the old one;
//   - fn's own, [ErrBusy], a [*MarkError], the context's, or any other: not applied.
//
// In all cases but nil and ErrUnknown the file is as it was; the mark may have been raised to tok.
//
// ctx governs the writing to w and the wait for the lock. It does not interrupt the disk, nor what is done under the lock.
func (g *Guard) Write(ctx context.Context, resource string, tok guard.Token, name string, perm fs.FileMode, fn func(w io.Writer) error) (err error) {
	ended := false
	defer func() {
		if !ended {
			err = errors.New("fileguard: fn did not return; nothing was changed")
		}
		g.report(ctx, resource, tok, err)
	}()
	err = g.write(ctx, resource, tok, name, perm, fn)
	ended = true
	return err
}

func (g *Guard) write(ctx context.Context, resource string, tok guard.Token, name string, perm fs.FileMode, fn func(w io.Writer) error) error {
	if err := checkName(name); err != nil {
		return err
	}
	if perm != perm.Perm() {
		return fmt.Errorf("fileguard: perm is %v (%#o); only the nine permission bits can be given", perm, uint32(perm))
	}
	if fn == nil {
		return errors.New("fileguard: Write: fn is nil")
	}
	d, err := g.begin(ctx, resource, tok)
	if err != nil {
		return err
	}
	defer d.Close()
	highest, err := g.readMark(d, resource)
	if err != nil {
		return err
	}
	if tok < highest { // it is late, unless the mark is not what it seems
		if err := g.step(ctx, d, resource, tok, func() error { return nil }); err != nil {
			return err
		}
	}
	if err := checkFolderOf(d, name); err != nil {
		return err
	}
	t, err := newTemp(d)
	if err != nil {
		return fmt.Errorf("fileguard: a file for the content of %q, nothing was changed: %w", name, err)
	}
	defer t.discard()
	w := &writer{ctx: ctx, to: t.f}
	failed := fn(w)
	if err := w.finish(); failed == nil {
		failed = err
	}
	if failed != nil {
		return failed
	}
	if err := t.seal(perm); err != nil {
		return fmt.Errorf("fileguard: the content of %q, nothing was changed: %w", name, err)
	}
	return g.step(ctx, d, resource, tok, func() error {
		folder, err := openFolderOf(d, name) // again, since fn may have run for long
		if err != nil {
			return outcome("writing", name, false, err)
		}
		defer folder.Close()
		unknown, err := t.place(name, folder)
		return outcome("writing", name, unknown, err)
	})
}

// outcome words the error of a change: whether it can have happened.
func outcome(doing, name string, unknown bool, err error) error {
	switch {
	case err == nil:
		return nil
	case unknown:
		return fmt.Errorf("fileguard: %w: %s %q: it is done or not, and may be undone by a power failure: %w", guard.ErrUnknown, doing, name, err)
	}
	return fmt.Errorf("fileguard: %s %q, nothing was changed: %w", doing, name, err)
}

// checkName returns nil if name can be that of a guarded file.
func checkName(name string) error {
	switch {
	case strings.ContainsRune(name, 0), name == ".", !filepath.IsLocal(name):
		return fmt.Errorf("fileguard: %q is no name of a file inside the guarded folder", name)
	case filepath.Clean(name) != name:
		return fmt.Errorf("fileguard: %q is not the shortest form of that name; use %q", name, filepath.Clean(name))
	case slices.ContainsFunc(strings.Split(name, "/"), func(part string) bool { return strings.EqualFold(part, marksDir) }):
		return fmt.Errorf("fileguard: %q is or leads through %s, which is for marks only", name, marksDir)
	}
	return nil
}

// writer is what fn writes to. It ends with fn, remembers a failure that fn may pass over, and can be shared.
type writer struct {
	ctx context.Context

	mu  sync.Mutex
	to  io.Writer
	err error // guarded by mu
}

func (w *writer) Write(p []byte) (n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil && w.ctx.Err() != nil {
		w.err = because(w.ctx)
	}
	if w.err == nil {
		n, w.err = w.to.Write(p)
	}
	return n, w.err
}

// finish returns the first failure. Nothing is written after it.
func (w *writer) finish() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.err
	w.err = errors.New("fileguard: the writer was used after fn had returned")
	return err
}
