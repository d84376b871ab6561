//go:build unix

package child_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fencedlock/fencedlock/internal/child"
)

func TestMain(m *testing.M) {
	child.Main(map[string]child.Role{"echo": echo, "counter": counter, "fail": fail, "parent": parent})
	goleak.VerifyTestMain(m)
}

func echo(s *child.Self) error {
	s.Say("ready %s", strings.Join(s.Args, ","))
	for {
		switch c := s.Command(); c {
		case "quit":
			return nil
		default:
			s.Say("heard %s", c)
		}
	}
}

func counter(s *child.Self) error {
	for i := 0; ; i++ {
		s.Say("%d", i)
		time.Sleep(time.Millisecond)
	}
}

func fail(*child.Self) error { return errors.New("on purpose") }

// parent starts a child of its own, stops it where the system ends stopped orphans, and tells its pid.
func parent(s *child.Self) error {
	p := child.Start(noTest{}, "counter")
	p.Expect("0", 10*time.Second)
	if runtime.GOOS == "linux" {
		p.Stop()
	}
	s.Say("pid %d", p.PID())
	s.Command()
	return nil
}

// noTest is a testing.TB outside of a test.
type noTest struct{ testing.TB }

func (noTest) Helper()                     {}
func (noTest) Cleanup(func())              {}
func (noTest) Fatalf(f string, arg ...any) { panic(fmt.Sprintf(f, arg...)) }

func TestChildTalksAndEnds(t *testing.T) {
	p := child.Start(t, "echo", "a", "b c")
	if got := p.Expect("ready", 10*time.Second); got != "a,b c" {
		t.Errorf("args = %q", got)
	}
	p.Send("one")
	p.Send("two")
	if got := p.Expect("heard", 5*time.Second); got != "one" {
		t.Errorf("heard %q", got)
	}
	p.Expect("heard two", 5*time.Second)
	p.Send("quit")
	if err := p.Wait(5 * time.Second); err != nil {
		t.Error(err)
	}
}

func TestStoppedChildStandsStillUntilContinued(t *testing.T) {
	p := child.Start(t, "counter")
	p.Expect("10", 10*time.Second)
	for range 3 {
		p.Stop()
		wantStopped(t, p.PID())
		// What the pipe held is read soon; after that there must be silence.
		time.Sleep(50 * time.Millisecond)
		before := len(p.Lines())
		time.Sleep(50 * time.Millisecond)
		if after := len(p.Lines()); after != before {
			t.Errorf("a stopped child said %d lines", after-before)
		}
		p.Continue()
		p.Expect(strconv.Itoa(before+10), 5*time.Second)
	}
	p.Stop()
	p.Kill()
	if err := p.Wait(time.Second); err == nil {
		t.Error("a killed child ended well")
	}
}

func wantStopped(t *testing.T, pid int) {
	t.Helper()
	if runtime.GOOS != "linux" {
		return
	}
	stats, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/stat")
	if len(stats) == 0 {
		t.Errorf("no threads of %d", pid)
	}
	for _, f := range stats {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Error(err)
			continue
		}
		_, rest, _ := strings.Cut(string(b), ") ")
		if !strings.HasPrefix(rest, "T") {
			t.Errorf("thread %s is %.1s", filepath.Dir(f), rest)
		}
	}
}

func TestFailedRoleIsToldByWait(t *testing.T) {
	err := child.Start(t, "fail").Wait(10 * time.Second)
	if e, ok := errors.AsType[*exec.ExitError](err); !ok || e.ExitCode() != 1 {
		t.Errorf("ended with %v", err)
	}
}

func TestChildDiesWithItsParent(t *testing.T) {
	p := child.Start(t, "parent")
	pid, err := strconv.Atoi(p.Expect("pid", 10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	p.Kill()
	for limit := time.Now().Add(5 * time.Second); alive(pid); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			syscall.Kill(pid, syscall.SIGKILL)
			t.Fatal("the grandchild outlived its parent")
		}
	}
}

// alive says whether the process runs or stands still; a zombie, which only its new parent can reap, does neither.
func alive(pid int) bool {
	if runtime.GOOS != "linux" {
		return syscall.Kill(pid, 0) == nil
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(b), ") ")
	return err == nil && !strings.HasPrefix(rest, "Z")
}
