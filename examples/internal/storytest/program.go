//go:build unix

// Package storytest runs an example as a program, in tests of its timeline and of what it leaves behind.
package storytest

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/fencedlock/fencedlock/examples/internal/story"
)

// asProgram makes the test binary be the example, so that the tests see real processes.
const asProgram = "FENCEDLOCK_STORY_AS_PROGRAM"

// BeProgram runs main, the example's, if this process is to be the example. It is for the beginning of TestMain.
func BeProgram(main func()) {
	if story.HasJob() || os.Getenv(asProgram) != "" {
		main()
	}
}

// Program is a run of the example in a process group and with a folder for temporary files of its own.
type Program struct {
	Stdout io.ReadCloser
	Stderr bytes.Buffer
	Said   strings.Builder // of Stdout, as far as it was read

	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner
	tmp   string
}

// Launch starts the example. It is killed at the test's end, should it still run.
func Launch(t *testing.T, tmp string) *Program {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &Program{t: t, cmd: exec.Command(exe), tmp: tmp}
	// The race detector would make every process linger for a second.
	p.cmd.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+tmp, "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	p.cmd.Stderr = &p.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if p.Stdout, err = p.cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-p.PID(), syscall.SIGKILL) })
	p.lines = bufio.NewScanner(p.Stdout)
	return p
}

// PID is that of the program, and of its process group.
func (p *Program) PID() int { return p.cmd.Process.Pid }

// Until reads the timeline up to a line that matches, and returns its groups.
func (p *Program) Until(pattern string) []string {
	p.t.Helper()
	for re := regexp.MustCompile(pattern); p.lines.Scan(); {
		p.Said.WriteString(p.lines.Text() + "\n")
		if found := re.FindStringSubmatch(p.lines.Text()); found != nil {
			return found
		}
	}
	_ = p.cmd.Wait()
	p.t.Fatalf("no line like %q in\n%s\nstderr:\n%s", pattern, p.Said.String(), &p.Stderr)
	return nil
}

// Number is the number in the first group of Until.
func (p *Program) Number(pattern string) int {
	p.t.Helper()
	n, err := strconv.Atoi(p.Until(pattern)[1])
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

// End reads what is left and returns the exit code, having checked that the program left nothing behind.
func (p *Program) End() int {
	p.t.Helper()
	for p.lines.Scan() {
		p.Said.WriteString(p.lines.Text() + "\n")
	}
	err := p.cmd.Wait()
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		p.t.Fatal(err)
	}
	if err := syscall.Kill(-p.PID(), 0); err != syscall.ESRCH {
		p.t.Errorf("a process was left behind (%v)", err)
	}
	if left, _ := filepath.Glob(filepath.Join(p.tmp, "*")); len(left) > 0 {
		p.t.Errorf("files were left behind: %v", left)
	}
	return p.cmd.ProcessState.ExitCode()
}

// Disturbed does something to an example that runs, and expects it to end with an error and nothing left.
func (p *Program) Disturbed(disturb func() error, want string) {
	p.t.Helper()
	if err := disturb(); err != nil {
		p.t.Fatal(err)
	}
	if code := p.End(); code != 1 || !strings.HasPrefix(p.Stderr.String(), want) {
		p.t.Errorf("exit code %d, stderr:\n%s\nwant 1 and %q", code, &p.Stderr, want)
	}
}
