//go:build unix

package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fencedlock/fencedlock/examples/internal/story"
	"github.com/fencedlock/fencedlock/examples/internal/storytest"
	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/httpguard"
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
	var tokens []int
	half := func(ending string) (servers [2]string) {
		servers[0] = p.Until(`server  serves accounts at http://127\.0\.0\.1:\d+ \(process (\d+)\)$`)[1]
		tokens = append(tokens, p.Number(`A  has the lock "account/1" with token (\d+)$`))
		p.Until(`A  reads the balance, adds \+50, and is about to PUT 150$`)
		p.Until(`A  is stopped \(SIGSTOP to process (\d+)\)`)
		p.Until(`B  wants the lock \(process (\d+)\)`)
		tokens = append(tokens, p.Number(`B  has the lock "account/1" with token (\d+)$`))
		p.Until(`B  PUTs 70, and the bank takes it$`)
		p.Until(`server  is killed`)
		servers[1] = p.Until(`server  is started again on the same database \(process (\d+)\)`)[1]
		p.Until(`A  is continued`)
		p.Until(ending)
		return servers
	}

	p.Until(`^WITH THE GUARD`)
	servers := half(`A  PUTs 150 and is REFUSED, since the bank has seen token \d+:$`)
	p.Until(`guard: stale token ` + strconv.Itoa(tokens[0]) + ` for "account/1": ` + strconv.Itoa(tokens[1]) + ` has been seen`)
	p.Until(`lock: lost: "account/1": session: expired: `)
	p.Until(`The balance is 70: RIGHT`)
	if servers[0] == servers[1] {
		t.Errorf("the server is process %s before and after it was killed", servers[0])
	}

	p.Until(`^WITHOUT THE GUARD`)
	half(`A  PUTs 150, and the bank takes it$`)
	p.Until(`lock: lost: "account/1": session: expired: `)
	p.Until(`The balance is 150: WRONG\. 100 - 30 \+ 50 is 120`)
	p.Until(`^Both halves went as told`)

	if code := p.End(); code != 0 || p.Stderr.Len() > 0 {
		t.Errorf("exit code %d, stderr:\n%s", code, &p.Stderr)
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
		disturb func(p *storytest.Program, server, a int) error // process ids
		want    string                                          // on stderr
	}{
		// A terminal sends Ctrl-C to all processes of the group.
		"Ctrl-C": {
			func(p *storytest.Program, _, _ int) error { return syscall.Kill(-p.PID(), syscall.SIGINT) },
			"service: stopped before the end: interrupt signal received\n",
		},
		"a signal to the program alone": {
			func(p *storytest.Program, _, _ int) error { return syscall.Kill(p.PID(), syscall.SIGTERM) },
			"service: stopped before the end: terminated signal received\n",
		},
		"the server dies": {
			func(_ *storytest.Program, server, _ int) error { return syscall.Kill(server, syscall.SIGKILL) },
			"service: with the guard: waiting for the step \"ready\": B ended too early: ",
		},
		"the stopped client dies": {
			func(_ *storytest.Program, _, a int) error { return syscall.Kill(a, syscall.SIGKILL) },
			"service: with the guard: A ended too early: signal: killed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := storytest.Launch(t, t.TempDir())
			server := p.Number(`server  serves accounts at \S+ \(process (\d+)\)$`)
			a := p.Number(`A  is stopped \(SIGSTOP to process (\d+)\)`)
			p.Until(`B  wants the lock`)
			p.Disturbed(func() error { return c.disturb(p, server, a) }, c.want)
		})
	}
}

func TestWithoutATemporaryFolderItSaysSo(t *testing.T) {
	t.Parallel()
	p := storytest.Launch(t, filepath.Join(t.TempDir(), "absent"))
	p.Disturbed(func() error { return nil }, "service: no temporary folder: ")
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
