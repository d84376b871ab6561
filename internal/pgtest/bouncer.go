//go:build unix

package pgtest

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/fencedlock/fencedlock/internal/daemon"
)

const errNoBouncer = daemon.NotInstalledError("pgtest: PgBouncer is not installed (no pgbouncer on PATH or in /usr/sbin); " +
	"on Debian and Ubuntu: apt-get install pgbouncer; on macOS: brew install pgbouncer")

// NewBouncer starts a PgBouncer in transaction mode with at most n connections to the database of dsn, and returns the
// connection string that goes through it. dsn is one of [Database]: PgBouncer accepts no search path. It ends with the
// test, and with the test process, also when that is killed.
func NewBouncer(t testing.TB, dsn string, n int) string {
	t.Helper()
	bin, err := findBouncer()
	if err != nil {
		daemon.Unavailable(t, err)
	}
	server, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	through := func(port int) string {
		u := *server
		u.Host = "127.0.0.1:" + strconv.Itoa(port)
		return u.String()
	}
	d, err := daemon.New(daemon.Config{
		Name:  "bouncer",
		Users: []string{"postgres"},
		Program: func(dir string, port int) []string {
			ini := filepath.Join(dir, "ini")
			_ = os.WriteFile(ini, bouncerConfig(server, dir, port, n), 0o644) // without it PgBouncer ends, and says so
			return []string{bin, ini}
		},
		Ping:    func(port int) error { return ping(through(port)) },
		PIDFile: "pid",
		Quit:    syscall.SIGTERM,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	if err := d.Up(); err != nil {
		t.Fatal(err)
	}
	return through(d.Port)
}

func bouncerConfig(server *url.URL, dir string, port, n int) []byte {
	// Sessions are used in turn, so that what is left in one is missed, or met, as soon as possible.
	return fmt.Appendf(nil, `[databases]
* = host=%s port=%s user=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
pidfile = %s
auth_type = any
pool_mode = transaction
default_pool_size = %d
server_round_robin = 1
`, server.Hostname(), server.Port(), server.User.Username(), port, filepath.Join(dir, "pid"), n)
}

func findBouncer() (string, error) {
	if p, err := exec.LookPath("pgbouncer"); err == nil {
		return p, nil
	}
	if p := "/usr/sbin/pgbouncer"; daemon.Executable(p) { // not on everybody's PATH
		return p, nil
	}
	return "", errNoBouncer
}
