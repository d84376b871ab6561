//go:build unix

package main

import (
	"context"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fencedlock/fencedlock/examples/internal/story"
	"github.com/fencedlock/fencedlock/examples/internal/storytest"
	"github.com/fencedlock/fencedlock/integration/etcdtest"
)

func TestMain(m *testing.M) {
	storytest.BeProgram(main)
	goleak.VerifyTestMain(m)
}

// Alone, since it also looks at the time that it takes.
func TestBothHalvesGoAsTold(t *testing.T) {
	began := time.Now()
	p := storytest.Launch(t, t.TempDir())

	p.Until(`^WITH THE GUARD`)
	first := p.Number(`A  has the lock "account/1" with token (\d+)$`)
	p.Until(`A  reads the balance, adds \+50, and is about to write 150$`)
	pidA := p.Until(`A  is stopped \(SIGSTOP to process (\d+)\)`)[1]
	pidB := p.Until(`B  wants the lock \(process (\d+)\)`)[1]
	second := p.Number(`B  has the lock "account/1" with token (\d+)$`)
	p.Until(`B  writes 70, and the database takes it$`)
	p.Until(`A  is continued`)
	p.Until(`A  tries to write 150 and is REFUSED:$`)
	p.Until(`guard: stale token ` + strconv.Itoa(first) + ` for "account/1": ` + strconv.Itoa(second) + ` has been seen`)
	p.Until(`A  looks at its lock again and finds it lost:$`)
	p.Until(`lock: lost: "account/1": session: expired: `)
	p.Until(`The balance is 70: RIGHT`)

	p.Until(`^WITHOUT THE GUARD`)
	third := p.Number(`A  has the lock .* token (\d+)$`)
	p.Until(`A  is stopped`)
	fourth := p.Number(`B  has the lock .* token (\d+)$`)
	p.Until(`B  writes 70, and the database takes it$`)
	p.Until(`A  writes 150, and the database takes it$`)
	p.Until(`A  looks at its lock again and finds it lost:$`)
	p.Until(`The balance is 150: WRONG\. 100 - 30 \+ 50 is 120`)
	p.Until(`^Both halves went as told`)

	if code := p.End(); code != 0 || p.Stderr.Len() > 0 {
		t.Errorf("exit code %d, stderr:\n%s", code, &p.Stderr)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
	if !(first < second && second < third && third < fourth) {
		t.Errorf("tokens do not rise: %d %d %d %d", first, second, third, fourth)
	}
	if pidA == pidB || pidA == strconv.Itoa(p.PID()) {
		t.Errorf("processes: A %s, B %s, stage %d", pidA, pidB, p.PID())
	}
	last := 0.0
	for _, m := range regexp.MustCompile(`(?m)^ *(\d+\.\d\d) s `).FindAllStringSubmatch(p.Said.String(), -1) {
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
		disturb func(p *storytest.Program, a, b int) error // the workers' process ids
		want    string                                     // on stderr
	}{
		// A terminal sends Ctrl-C to all processes of the group.
		"Ctrl-C": {
			func(p *storytest.Program, _, _ int) error { return syscall.Kill(-p.PID(), syscall.SIGINT) },
			"quickstart: stopped before the end: interrupt signal received\n",
		},
		"a signal to the program alone": {
			func(p *storytest.Program, _, _ int) error { return syscall.Kill(p.PID(), syscall.SIGTERM) },
			"quickstart: stopped before the end: terminated signal received\n",
		},
		"a reader that has gone": {
			func(p *storytest.Program, _, _ int) error { return p.Stdout.Close() },
			"quickstart: stopped before the end: broken pipe signal received\n",
		},
		"the stopped worker dies": {
			func(_ *storytest.Program, a, _ int) error { return syscall.Kill(a, syscall.SIGKILL) },
			"quickstart: with the guard: A ended too early: signal: killed",
		},
		"the waiting worker dies": {
			func(_ *storytest.Program, _, b int) error { return syscall.Kill(b, syscall.SIGKILL) },
			"quickstart: with the guard: waiting for the step \"holds\": B ended too early: signal: killed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := storytest.Launch(t, t.TempDir())
			a := p.Number(`A  is stopped \(SIGSTOP to process (\d+)\)`)
			b := p.Number(`B  wants the lock \(process (\d+)\)`)
			p.Disturbed(func() error { return c.disturb(p, a, b) }, c.want)
		})
	}
}

func TestWithoutATemporaryFolderItSaysSo(t *testing.T) {
	t.Parallel()
	p := storytest.Launch(t, filepath.Join(t.TempDir(), "absent"))
	p.Disturbed(func() error { return nil }, "quickstart: no temporary folder: ")
}

func TestTheStoryFailsWhenTheGuardIsMissing(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t, nil)
	s := story.NewStage(t.TempDir(), etcd.Endpoints())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	balance, err := tell(ctx, s, "refused", false)
	if err == nil || !strings.Contains(err.Error(), `A should have come to the step "refused", and came to "written"`) {
		t.Errorf("tell = %d, %v", balance, err)
	}
}
