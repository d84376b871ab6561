//go:build unix

package pgtest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

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
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	for try := 1; ; try++ { // somebody else may take the port between our look and its start
		through, err := bounce(t, bin, u, n)
		if err == nil {
			return through
		}
		if try == 3 {
			t.Fatal(err)
		}
	}
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

func bounce(t testing.TB, bin string, server *url.URL, n int) (_ string, failed error) {
	cred, err := daemon.Unprivileged("postgres")
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "fencedlock-bouncer-")
	if err != nil {
		return "", err
	}
	defer func() {
		if failed != nil {
			_ = os.RemoveAll(dir)
		}
	}()
	if cred != nil {
		if err := os.Chown(dir, int(cred.Uid), int(cred.Gid)); err != nil {
			return "", err
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	through := *server
	through.Host = l.Addr().String()
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		return "", err
	}
	ini := filepath.Join(dir, "pgbouncer.ini")
	err = os.WriteFile(ini, fmt.Appendf(nil, `[databases]
* = host=%s port=%s user=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = %d
server_round_robin = 1
`, server.Hostname(), server.Port(), server.User.Username(), port, n), 0o644)
	if err != nil {
		return "", err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return "", err
	}
	defer log.Close()
	// The shell ends PgBouncer at the end of a pipe that only we hold, so also when we are killed.
	const script = `"$1" "$2/pgbouncer.ini" & read -r _; kill $! && wait; rm -rf "$2"`
	c := exec.Command("/bin/sh", "-c", script, "sh", bin, dir)
	c.Dir = "/"
	c.Stdout, c.Stderr = log, log
	c.SysProcAttr = &syscall.SysProcAttr{Credential: cred, Setpgid: true}
	leash, err := c.StdinPipe()
	if err != nil {
		return "", err
	}
	if err := c.Start(); err != nil {
		return "", err
	}
	end := func() {
		_ = leash.Close()
		_ = c.Wait()          // how it ended is in the log
		_ = os.RemoveAll(dir) // whatever the process itself could not remove
	}
	if err := reach(through.String()); err != nil {
		text, _ := os.ReadFile(log.Name())
		end()
		return "", fmt.Errorf("pgtest: pgbouncer does not answer: %w\n%s", err, text)
	}
	t.Cleanup(end)
	return through.String(), nil
}

// reach waits until a server answers.
func reach(dsn string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for {
		c, err := pgx.Connect(ctx, dsn)
		if err == nil {
			return c.Close(ctx)
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}
