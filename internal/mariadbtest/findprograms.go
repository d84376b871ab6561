//go:build unix

package mariadbtest

import (
	"os/exec"
	"path/filepath"

	"github.com/fencedlock/fencedlock/internal/daemon"
)

const errNotInstalled = daemon.NotInstalledError("mariadbtest: MariaDB is not installed (no mariadbd and mariadb-install-db on PATH or in the usual folders); " +
	"on Debian and Ubuntu: apt-get install mariadb-server; on macOS: brew install mariadb")

// findPrograms returns the paths of the server, which is often not on PATH, and of the program that makes its first data.
func findPrograms() (server, install string, err error) {
	if server = find("mariadbd"); server != "" {
		if install = find("mariadb-install-db"); install != "" {
			return server, install, nil
		}
	}
	return "", "", errNotInstalled
}

func find(program string) string {
	if p, err := exec.LookPath(program); err == nil {
		return p
	}
	for _, dir := range []string{"/usr/sbin", "/usr/bin", "/usr/libexec", "/usr/local/sbin", "/opt/homebrew/opt/mariadb/bin", "/usr/local/opt/mariadb/bin"} {
		if p := filepath.Join(dir, program); daemon.Executable(p) {
			return p
		}
	}
	return ""
}
