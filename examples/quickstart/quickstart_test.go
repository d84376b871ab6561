//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
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
	"time"

	"go.uber.org/goleak"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
)

// asProgram makes the test binary be the program, so that the tests see real processes.
const asProgram = "QUICKSTART_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if _, isWorker := os.LookupEnv(jobVariable); isWorker || os.Getenv(asProgram) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

// program is a run of the quickstart in a process group and with a folder for temporary files of its own.
type program struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout io.ReadCloser
	lines  *bufio.Scanner
	stderr bytes.Buffer
	tmp    string
	said   strings.Builder
}

func launch(t *testing.T, tmp string) *program {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &program{t: t, cmd: exec.Command(exe), tmp: tmp}
	// The race detector would make every process linger for a second.
	p.cmd.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+tmp, "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	p.cmd.Stderr = &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if p.stdout, err = p.cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) })
	p.lines = bufio.NewScanner(p.stdout)
	return p
}

// until reads the timeline up to a line that matches, and returns its groups.
func (p *program) until(pattern string) []string {
	p.t.Helper()
	for re := regexp.MustCompile(pattern); p.lines.Scan(); {
		p.said.WriteString(p.lines.Text() + "\n")
		if found := re.FindStringSubmatch(p.lines.Text()); found != nil {
			return found
		}
	}
	_ = p.cmd.Wait()
	p.t.Fatalf("no line like %q in\n%s\nstderr:\n%s", pattern, p.said.String(), &p.stderr)
	return nil
}

// end reads what is left and returns the exit code, having checked that the program left nothing behind.
func (p *program) end() int {
	p.t.Helper()
	for p.lines.Scan() {
		p.said.WriteString(p.lines.Text() + "\n")
	}
	err := p.cmd.Wait()
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		p.t.Fatal(err)
	}
	if err := syscall.Kill(-p.cmd.Process.Pid, 0); err != syscall.ESRCH {
		p.t.Errorf("a process was left behind (%v)", err)
	}
	if left, _ := filepath.Glob(filepath.Join(p.tmp, "*")); len(left) > 0 {
		p.t.Errorf("files were left behind: %v", left)
	}
	return p.cmd.ProcessState.ExitCode()
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Alone, since it also looks at the time that it takes.
func TestBothHalvesGoAsTold(t *testing.T) {
	began := time.Now()
	p := launch(t, t.TempDir())

	p.until(`^WITH THE GUARD`)
	first := number(t, p.until(`A  has the lock "account/1" with token (\d+)$`)[1])
	p.until(`A  reads the balance, adds \+50, and is about to write 150$`)
	pidA := p.until(`A  is stopped \(SIGSTOP to process (\d+)\)`)[1]
	pidB := p.until(`B  wants the lock \(process (\d+)\)`)[1]
	second := number(t, p.until(`B  has the lock "account/1" with token (\d+)$`)[1])
	p.until(`B  writes 70, and the database takes it$`)
	p.until(`A  is continued`)
	p.until(`A  tries to write 150 and is REFUSED:$`)
	p.until(`guard: stale token ` + strconv.Itoa(first) + ` for "account/1": ` + strconv.Itoa(second) + ` has been seen`)
	p.until(`A  looks at its lock again and finds it lost:$`)
	p.until(`lock: lost: "account/1": session: expired: `)
	p.until(`The balance is 70: RIGHT`)

	p.until(`^WITHOUT THE GUARD`)
	third := number(t, p.until(`A  has the lock .* token (\d+)$`)[1])
	p.until(`A  is stopped`)
	fourth := number(t, p.until(`B  has the lock .* token (\d+)$`)[1])
	p.until(`B  writes 70, and the database takes it$`)
	p.until(`A  writes 150, and the database takes it$`)
	p.until(`A  looks at its lock again and finds it lost:$`)
	p.until(`The balance is 150: WRONG\. 100 - 30 \+ 50 is 120`)
	p.until(`^Both halves went as told`)

	if code := p.end(); code != 0 || p.stderr.Len() > 0 {
		t.Errorf("exit code %d, stderr:\n%s", code, &p.stderr)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
	if !(first < second && second < third && third < fourth) {
		t.Errorf("tokens do not rise: %d %d %d %d", first, second, third, fourth)
	}
	if pidA == pidB || pidA == strconv.Itoa(p.cmd.Process.Pid) {
		t.Errorf("processes: A %s, B %s, stage %d", pidA, pidB, p.cmd.Process.Pid)
	}
	last := 0.0
	for _, m := range regexp.MustCompile(`(?m)^ *(\d+\.\d\d) s `).FindAllStringSubmatch(p.said.String(), -1) {
		at, err := strconv.ParseFloat(m[1], 64)
		if err != nil || at < last {
			t.Errorf("the time goes from %v to %v (%v)", last, m[1], err)
		}
		last = at
	}
	if last == 0 {
		t.Error("the timeline has no times")
	}
}

func TestWhateverEndsItLeavesNothingBehind(t *testing.T) {
	for name, c := range map[string]struct {
		disturb func(p *program, a, b int) error // the workers' process ids
		want    string                           // on stderr
	}{
		// A terminal sends Ctrl-C to all processes of the group.
		"Ctrl-C": {
			func(p *program, _, _ int) error { return syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT) },
			"quickstart: stopped before the end: interrupt signal received\n",
		},
		"a signal to the program alone": {
			func(p *program, _, _ int) error { return p.cmd.Process.Signal(syscall.SIGTERM) },
			"quickstart: stopped before the end: terminated signal received\n",
		},
		"a reader that has gone": {
			func(p *program, _, _ int) error { return p.stdout.Close() },
			"quickstart: stopped before the end: broken pipe signal received\n",
		},
		"the stopped worker dies": {
			func(_ *program, a, _ int) error { return syscall.Kill(a, syscall.SIGKILL) },
			"quickstart: with the guard: worker A ended too early: signal: killed",
		},
		"the waiting worker dies": {
			func(_ *program, _, b int) error { return syscall.Kill(b, syscall.SIGKILL) },
			"quickstart: with the guard: waiting for the step \"holds\": worker B ended too early: signal: killed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := launch(t, t.TempDir())
			a := number(t, p.until(`A  is stopped \(SIGSTOP to process (\d+)\)`)[1])
			b := number(t, p.until(`B  wants the lock \(process (\d+)\)`)[1])
			if err := c.disturb(p, a, b); err != nil {
				t.Fatal(err)
			}
			if code := p.end(); code != 1 || !strings.HasPrefix(p.stderr.String(), c.want) {
				t.Errorf("exit code %d, stderr:\n%s\nwant 1 and %q", code, &p.stderr, c.want)
			}
		})
	}
}

func TestWithoutATemporaryFolderItSaysSo(t *testing.T) {
	t.Parallel()
	p := launch(t, filepath.Join(t.TempDir(), "absent"))
	if code := p.end(); code != 1 || !strings.HasPrefix(p.stderr.String(), "quickstart: no temporary folder: ") {
		t.Errorf("exit code %d, stderr:\n%s", code, &p.stderr)
	}
}

func TestTheStoryFailsWhenTheGuardIsMissing(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t, nil)
	s := stage{began: time.Now(), dir: t.TempDir(), etcd: etcd.Endpoints()}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	balance, err := s.tell(ctx, "refused", false)
	if err == nil || !strings.Contains(err.Error(), `worker A should have come to the step "refused", and came to "written"`) {
		t.Errorf("tell = %d, %v", balance, err)
	}
}
