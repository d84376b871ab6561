//go:build unix

package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/internal/child"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

// counter is a process that raises a number in a file, which only the lock protects, and notes its tokens beside.
func counter(self *child.Self) error {
	endpoint, dir := self.Args[0], self.Args[1]
	rounds, err := strconv.Atoi(self.Args[2])
	if err != nil {
		return err
	}
	raise := func(h *lock.Held) error {
		file := filepath.Join(dir, "counter")
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(text))
		if err != nil {
			return fmt.Errorf("a half-written counter: %w", err)
		}
		if err := os.WriteFile(file, []byte(strconv.Itoa(n+1)), 0o600); err != nil {
			return err
		}
		tokens, err := os.OpenFile(filepath.Join(dir, "tokens"), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		defer tokens.Close()
		_, err = fmt.Fprintln(tokens, h.Token())
		return err
	}
	return connected(endpoint, session.Options{}, func(s *session.Session) error {
		m := lock.NewMutex(s, "counter")
		for range rounds {
			err := m.Do(context.Background(), func(_ context.Context, h *lock.Held) error { return raise(h) })
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func TestProcessesExcludeEachOther(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, nil)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "counter"), []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	const processes, rounds = 2, 500
	var all []*child.Process
	for range processes {
		all = append(all, child.Start(t, "counter", cluster.Endpoints()[0], dir, strconv.Itoa(rounds)))
	}
	for _, p := range all {
		if err := p.Wait(2 * time.Minute); err != nil {
			t.Errorf("a process failed: %v", err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "counter"))
	if err != nil || string(text) != strconv.Itoa(processes*rounds) {
		t.Errorf("the counter is %s, %v; want %d", text, err, processes*rounds)
	}
	tokens, err := os.ReadFile(filepath.Join(dir, "tokens"))
	if err != nil {
		t.Fatal(err)
	}
	last := int64(0)
	for _, line := range strings.Fields(string(tokens)) {
		tok := number(t, line)
		if tok <= last {
			t.Errorf("token %d after %d", tok, last)
		}
		last = tok
	}
	etcdtest.AssertEmpty(t, cluster.Client(t), "/fencedlock/", 0)
}
