//go:build unix

package daemon

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
	"testing"
)

// NotInstalledError is the error of a machine without the server's programs; it says how to get them.
type NotInstalledError string

func (e NotInstalledError) Error() string { return string(e) }

// Unavailable skips the test when a program is not installed and nobody insists, and fails it otherwise.
func Unavailable(t testing.TB, err error) {
	t.Helper()
	var missing NotInstalledError
	if errors.As(err, &missing) && os.Getenv("FENCEDLOCK_REQUIRE_SERVERS") != "1" {
		t.Skip(err)
	}
	t.Fatal(err)
}

// Executable tells whether the file is a program.
func Executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// Unprivileged returns whom to run a server as when the test is run by root, which servers refuse: the first of the users
// that exists, else nobody. nil is the current user.
func Unprivileged(names ...string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range append(names, "nobody") {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errU := strconv.ParseUint(u.Uid, 10, 32)
		gid, errG := strconv.ParseUint(u.Gid, 10, 32)
		if errU == nil && errG == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, fmt.Errorf("servers do not run as root, and there is none of the users %v and nobody", names)
}
