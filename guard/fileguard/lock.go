package fileguard

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"
)

// longestPause bounds the pause between two looks at a lock.
const longestPause = 20 * time.Millisecond

// ErrBusy is the error of a call that has waited for [Options].MaxWait and did not get the resource's lock. Nothing was
// applied. The text names the process that has the lock, where the system tells it (Linux): one that is stopped keeps it
// until it goes on or is killed.
var ErrBusy = errors.New("fileguard: busy")

// lock waits for the resource's lock; closing the file gives it back, and so does the end of the process. Looking again
// and again is the only kind of wait for flock that can be given up without leaving a thread in the kernel. It is not fair.
func (g *Guard) lock(ctx context.Context, d disk, resource string) (file, error) {
	name := lockName(resource)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("fileguard: %w before the lock of %q was taken; nothing was changed", because(ctx), resource)
	}
	giveUp := time.Now().Add(g.opts.MaxWait)
	for pause := time.Millisecond; ; pause = min(2*pause, longestPause) {
		f, err := tryLock(d, name)
		if err != nil {
			return nil, fmt.Errorf("fileguard: the lock of %q, %s, nothing was changed: %w", resource, g.path(name), err)
		}
		if f != nil {
			return f, nil
		}
		if !time.Now().Before(giveUp) {
			return nil, fmt.Errorf("%w: for %v %s had the lock of %q, %s; nothing was changed",
				ErrBusy, g.opts.MaxWait, blocker(g.path(name)), resource, g.path(name))
		}
		t := time.NewTimer(min(rand.N(pause)+1, time.Until(giveUp)))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, fmt.Errorf("fileguard: %w while %s had the lock of %q, %s; nothing was changed",
				because(ctx), blocker(g.path(name)), resource, g.path(name))
		}
	}
}

// tryLock returns nil without an error if somebody else has the lock.
func tryLock(d disk, name string) (file, error) {
	if _, err := isFile(d, name); err != nil { // a link's target would be locked, and would never have the name
		return nil, err
	}
	f, err := d.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	locked, err := f.TryLock()
	if err == nil && locked {
		// A lock on a file that is not there any more excludes nobody.
		locked, err = isStill(d, name, f)
	}
	if err != nil || !locked {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// isStill tells whether the open file is the one that has the name now.
func isStill(d disk, name string, f file) (bool, error) {
	opened, err := f.Stat()
	if err != nil {
		return false, err
	}
	there, err := d.Lstat(name)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(opened, there), err
}

// isFile tells whether there is something, and returns an error if it is no regular file: opening it could lead elsewhere, or
// wait for ever.
func isFile(d disk, name string) (bool, error) {
	info, err := d.Lstat(name)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case !info.Mode().IsRegular():
		return true, fmt.Errorf("it is no regular file, but %v", info.Mode())
	}
	return true, nil
}

// because is why the context has ended.
func because(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		return fmt.Errorf("%w (%w)", ctx.Err(), cause)
	}
	return ctx.Err()
}
