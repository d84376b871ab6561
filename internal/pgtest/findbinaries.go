//go:build unix

package pgtest

import (
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"github.com/fencedlock/fencedlock/internal/daemon"
)

const errNotInstalled = daemon.NotInstalledError("pgtest: PostgreSQL is not installed (no initdb and postgres on PATH, by pg_config, or in the usual folders); " +
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
		if daemon.Executable(filepath.Join(d, "initdb")) && daemon.Executable(filepath.Join(d, "postgres")) {
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
