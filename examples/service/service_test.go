//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/httpguard"
	"github.com/fencedlock/fencedlock/integration/etcdtest"
)

// asProgram makes the test binary be the program, so that the tests see real processes.
const asProgram = "SERVICE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if _, isJob := os.LookupEnv(jobVariable); isJob || os.Getenv(asProgram) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

// program is a run of the example in a process group and with a folder for temporary files of its own.
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
	var tokens []int
	half := func(ending string) (servers [2]string) {
		servers[0] = p.until(`server  serves accounts at http://127\.0\.0\.1:\d+ \(process (\d+)\)$`)[1]
		tokens = append(tokens, number(t, p.until(`A  has the lock "account/1" with token (\d+)$`)[1]))
		p.until(`A  reads the balance, adds \+50, and is about to PUT 150$`)
		p.until(`A  is stopped \(SIGSTOP to process (\d+)\)`)
		p.until(`B  wants the lock \(process (\d+)\)`)
		tokens = append(tokens, number(t, p.until(`B  has the lock "account/1" with token (\d+)$`)[1]))
		p.until(`B  PUTs 70, and the bank takes it$`)
		p.until(`server  is killed`)
		servers[1] = p.until(`server  is started again on the same database \(process (\d+)\)`)[1]
		p.until(`A  is continued`)
		p.until(ending)
		return servers
	}

	p.until(`^WITH THE GUARD`)
	servers := half(`A  PUTs 150 and is REFUSED, since the bank has seen token \d+:$`)
	p.until(`guard: stale token ` + strconv.Itoa(tokens[0]) + ` for "account/1": ` + strconv.Itoa(tokens[1]) + ` has been seen`)
	p.until(`lock: lost: "account/1": session: expired: `)
	p.until(`The balance is 70: RIGHT`)
	if servers[0] == servers[1] {
		t.Errorf("the server is process %s before and after it was killed", servers[0])
	}

	p.until(`^WITHOUT THE GUARD`)
	half(`A  PUTs 150, and the bank takes it$`)
	p.until(`lock: lost: "account/1": session: expired: `)
	p.until(`The balance is 150: WRONG\. 100 - 30 \+ 50 is 120`)
	p.until(`^Both halves went as told`)

	if code := p.end(); code != 0 || p.stderr.Len() > 0 {
		t.Errorf("exit code %d, stderr:\n%s", code, &p.stderr)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
	if !slices.IsSorted(tokens) || len(slices.Compact(tokens)) != 4 {
		t.Errorf("tokens do not rise: %v", tokens)
	}
}

func TestWhateverEndsItLeavesNothingBehind(t *testing.T) {
	for name, c := range map[string]struct {
		disturb func(p *program, server, a int) error // process ids
		want    string                                // on stderr
	}{
		// A terminal sends Ctrl-C to all processes of the group.
		"Ctrl-C": {
			func(p *program, _, _ int) error { return syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT) },
			"service: stopped before the end: interrupt signal received\n",
		},
		"a signal to the program alone": {
			func(p *program, _, _ int) error { return p.cmd.Process.Signal(syscall.SIGTERM) },
			"service: stopped before the end: terminated signal received\n",
		},
		"the server dies": {
			func(_ *program, server, _ int) error { return syscall.Kill(server, syscall.SIGKILL) },
			"service: with the guard: waiting for the step \"ready\": B ended too early: ",
		},
		"the stopped client dies": {
			func(_ *program, _, a int) error { return syscall.Kill(a, syscall.SIGKILL) },
			"service: with the guard: A ended too early: signal: killed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := launch(t, t.TempDir())
			server := number(t, p.until(`server  serves accounts at \S+ \(process (\d+)\)$`)[1])
			a := number(t, p.until(`A  is stopped \(SIGSTOP to process (\d+)\)`)[1])
			p.until(`B  wants the lock`)
			if err := c.disturb(p, server, a); err != nil {
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
	if code := p.end(); code != 1 || !strings.HasPrefix(p.stderr.String(), "service: no temporary folder: ") {
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
	if err == nil || !strings.Contains(err.Error(), `A should have come to the step "refused", and came to "written"`) {
		t.Errorf("tell = %d, %v", balance, err)
	}
}

// The lock of one account opens no other, and nobody opens one without a lock.
func TestTheBankRefusesTheTokenOfAnotherAccount(t *testing.T) {
	b, err := openBank(t.Context(), filepath.Join(t.TempDir(), "bank.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer b.db.Close()
	server := httptest.NewServer(b.routes())
	defer server.Close()
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	client := &http.Client{Transport: &httpguard.Transport{Base: base}}
	for resource, want := range map[string]string{"account/1": "", "account/2": "400 Bad Request"} {
		_, err := request(guard.NewContext(t.Context(), resource, 7), client, http.MethodPut, server.URL+"/accounts/1", "70")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", resource, err)
		}
	}
	if _, err := request(t.Context(), client, http.MethodPut, server.URL+"/accounts/1", "80"); !errors.Is(err, guard.ErrNoToken) {
		t.Errorf("without a token: %v", err)
	}
	if balance, err := readBalance(t.Context(), server.URL); balance != 70 || err != nil {
		t.Errorf("the balance is %d, %v", balance, err)
	}
}
