//go:build unix

// Package child runs parts of a test in processes of their own, so that they can be stopped, continued and killed as real
// processes are. The child is the test binary itself, started again: TestMain hands over to Main, which runs the role that
// the parent asked for. Parent and child talk in lines.
package child

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Process is a running child. Its methods fail the test instead of returning errors, so they belong on the test's own
// goroutine; Lines may be called from anywhere. The process is killed when the test ends, whatever its state, and on Linux
// also when the test's process dies.
type Process struct {
	t      testing.TB
	role   string
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr lockedBuffer
	exited chan struct{} // closed when all output is read and the process is reaped
	err    error         // how it ended; set before exited is closed

	mu    sync.Mutex
	lines []string      // what the child has said; guarded by mu
	more  chan struct{} // closed and replaced when lines grow; guarded by mu
	next  int           // lines that Expect is done with; guarded by mu
}

// Start runs the role in a new process, with args as Self.Args.
func Start(t testing.TB, role string, args ...string) *Process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatalf("child: %v", err)
	}
	p := &Process{t: t, role: role, cmd: exec.Command(exe, args...),
		exited: make(chan struct{}), more: make(chan struct{})}
	// The race detector would make every child linger for a second before it exits.
	p.cmd.Env = append(os.Environ(), roleVariable+"="+role, "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	p.cmd.Stderr = &p.stderr
	p.cmd.SysProcAttr = attr()
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatalf("child: %v", err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("child: %v", err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("child: starting %s: %v", role, err)
	}
	go p.read(stdout)
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.exited
		p.stdin.Close()
		if t.Failed() {
			t.Logf("child %s (pid %d) ended: %v\nsaid:\n%s\nstderr:\n%s",
				role, p.PID(), p.err, strings.Join(p.Lines(), "\n"), &p.stderr)
		}
	})
	return p
}

func (p *Process) read(stdout io.Reader) {
	for s := bufio.NewScanner(stdout); s.Scan(); {
		p.mu.Lock()
		p.lines = append(p.lines, s.Text())
		close(p.more)
		p.more = make(chan struct{})
		p.mu.Unlock()
	}
	p.err = p.cmd.Wait()
	close(p.exited)
}

// PID is the child's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Lines is what the child has said so far, one entry for each Self.Say.
func (p *Process) Lines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.lines...)
}

// Expect waits for the next line that begins with prefix and returns what follows it, without spaces around. Lines
// before it are passed over for good. The test fails at once when the line has not come in time, or the child has ended.
func (p *Process) Expect(prefix string, within time.Duration) string {
	p.t.Helper()
	limit := time.NewTimer(within)
	defer limit.Stop()
	for ended := false; ; {
		p.mu.Lock()
		more := p.more
		for p.next < len(p.lines) {
			line := p.lines[p.next]
			p.next++
			if rest, ok := strings.CutPrefix(line, prefix); ok {
				p.mu.Unlock()
				return strings.TrimSpace(rest)
			}
		}
		p.mu.Unlock()
		if ended {
			p.t.Fatalf("child %s ended without saying %q: %v", p.role, prefix, p.err)
		}
		select {
		case <-more:
		case <-p.exited:
			ended = true // after one more look: all it said is here now
		case <-limit.C:
			p.t.Fatalf("child %s did not say %q within %v", p.role, prefix, within)
		}
	}
}

// Send gives the child one line, which Self.Command returns there.
func (p *Process) Send(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p.stdin, line+"\n"); err != nil {
		p.t.Fatalf("child %s: send %q: %v", p.role, line, err)
	}
}

// Stop sends SIGSTOP and returns when every thread of the child stands still.
func (p *Process) Stop() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(p.PID(), &status, syscall.WUNTRACED, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || !status.Stopped() {
			p.t.Fatalf("child %s: did not stop: status %#x, %v", p.role, status, err)
		}
		return
	}
}

// Continue lets a stopped child run again.
func (p *Process) Continue() {
	p.t.Helper()
	p.signal(syscall.SIGCONT)
}

// Signal sends any other signal, SIGTERM for example, and does not wait.
func (p *Process) Signal(s syscall.Signal) {
	p.t.Helper()
	p.signal(s)
}

// Kill ends the child by SIGKILL, stopped or not, and returns when it is gone.
func (p *Process) Kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	<-p.exited
}

// Wait waits until the child ends by itself and returns how: nil for a role that returned nil, an *exec.ExitError otherwise.
func (p *Process) Wait(within time.Duration) error {
	p.t.Helper()
	limit := time.NewTimer(within)
	defer limit.Stop()
	select {
	case <-p.exited:
		return p.err
	case <-limit.C:
		p.t.Fatalf("child %s did not end within %v", p.role, within)
		return nil
	}
}

func (p *Process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("child %s: %v: %v", p.role, s, err)
	}
}

// lockedBuffer is read while the process may still write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
