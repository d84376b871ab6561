//go:build linux || darwin

package fileguard

import (
	"os"
	"syscall"
)

// supported: there is flock, and folders can be synced.
const supported = true

// tryFlock never waits, so that no thread hangs in the kernel when the caller has lost patience.
func tryFlock(f *os.File) (bool, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return false, err
	}
	var locked error
	err = conn.Control(func(fd uintptr) {
		for {
			locked = syscall.Flock(int(fd), syscall.LOCK_EX|syscall.LOCK_NB)
			if locked != syscall.EINTR {
				return
			}
		}
	})
	switch {
	case err != nil:
		return false, err
	case locked == syscall.EWOULDBLOCK:
		return false, nil
	case locked != nil:
		return false, &os.PathError{Op: "flock", Path: f.Name(), Err: locked}
	}
	return true, nil
}
