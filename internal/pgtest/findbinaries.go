//go:build unix

package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
)

var errNotInstalled = errors.New("pgtest: PostgreSQL is not installed (no initdb and postgres on PATH, by pg_config, or in the usual folders); " +
	"on Debian and Ubuntu: apt-get install postgresql; on macOS: brew install postgresql@17")

// findBinaries returns the folder that holds both initdb and postgres; of several versions the newest.
func findBinaries() (string, error) {
	var dirs []string
	if p, err := exec.LookPath("initdb"); err == nil {
		if p, err = filepath.EvalSymlinks(p); err == nil {
			dirs = append(dirs, filepath.Dir(p))
		}
	}
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin", "/usr/local/opt/postgresql*/bin"} {
		found, _ := filepath.Glob(pattern) // the patterns are well formed
		sort.Slice(found, func(i, j int) bool { return version(found[i]) > version(found[j]) })
		dirs = append(dirs, found...)
	}
	// Last, since it may name the folder of a version of which only the headers are installed.
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	for _, d := range dirs {
		if executable(filepath.Join(d, "initdb")) && executable(filepath.Join(d, "postgres")) {
			return d, nil
		}
	}
	return "", errNotInstalled
}

func version(dir string) int {
	digits := strings.Trim(filepath.Base(filepath.Dir(dir)), "abcdefghijklmnopqrstuvwxyz-@")
	n, _ := strconv.Atoi(digits) // a folder without a version sorts last
	return n
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// unprivileged returns whom to run the server as: PostgreSQL refuses to be run by root. nil is the current user.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
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
	return nil, fmt.Errorf("pgtest: PostgreSQL does not run as root, and there is neither a user postgres nor nobody")
}
