package fileguard

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/internal/child"
)

// killed is a process that writes with rising tokens until it is killed, each Args[1] above the mark. Each content is some
// hundred kilobytes of lines that repeat the token.
func killed(s *child.Self) error {
	g, err := New(s.Args[0], nil)
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(s.Args[1])
	if err != nil {
		return err
	}
	s.Say("ready")
	for {
		ctx := context.Background()
		highest, err := g.Highest(ctx, account)
		if err != nil {
			return err
		}
		tok := highest + guard.Token(number)
		err = g.Write(ctx, account, tok, accountFile, 0o600, func(w io.Writer) error {
			for range 8 {
				if _, err := io.WriteString(w, strings.Repeat(tok.String()+"\n", 4000)); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			s.Say("wrote %d", tok)
		}
	}
}

// A process that dies in the middle of a write leaves a file cut off, or one that only the next restart finds:
// https://github.com/saltstack/salt/issues/69583, https://github.com/caddyserver/certmagic/issues/232
func TestKilledWritersLeaveWholeFilesAndNoMarkThatGoesBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var highest guard.Token
	for round := range 6 {
		processes := []*child.Process{child.Start(t, "killed", dir, "1"), child.Start(t, "killed", dir, "2")}
		for _, p := range processes {
			p.Expect("ready", 30*time.Second)
		}
		processes[0].Expect("wrote", 30*time.Second)
		time.Sleep(rand.N(15 * time.Millisecond)) // any moment is a good one
		for _, p := range processes {
			p.Kill()
		}
		for _, p := range processes {
			for _, line := range p.Lines() {
				if _, n, ok := strings.Cut(line, "wrote "); ok {
					tok, err := guard.ParseToken(n)
					if err != nil {
						t.Fatal(err)
					}
					highest = max(highest, tok)
				}
			}
		}
		left := len(leftovers(t, dir))
		g := mustNew(t, dir, nil)
		mark, err := g.Highest(t.Context(), account)
		if err != nil || mark < highest {
			t.Fatalf("round %d: the mark is %d, %v; %d was reported", round, mark, err, highest)
		}
		b, err := os.ReadFile(filepath.Join(dir, accountFile))
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := bytes.Cut(b, []byte("\n"))
		tok, err := guard.ParseToken(string(first))
		if err != nil || tok < highest || tok > mark || string(b) != strings.Repeat(tok.String()+"\n", 32000) {
			t.Fatalf("round %d: the file has %d bytes by %q, %v; %d was reported, the mark is %d", round, len(b), first, err, highest, mark)
		}
		if err := g.WriteFile(t.Context(), account, mark-1, accountFile, []byte("late"), 0o600); mark > 1 && err == nil {
			t.Errorf("round %d: a late write was applied", round)
		}
		if l := leftovers(t, dir); l != nil {
			t.Errorf("round %d: of %d unfinished files there are still %q", round, left, l)
		}
		t.Logf("round %d: up to token %d, %d unfinished files", round, highest, left)
	}
}

// What somebody is writing is no leftover.
func TestUnfinishedContentOfTheLivingIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	g := mustNew(t, dir, nil)
	mustWrite(t, filepath.Join(dir, marksDir, tempPrefix+"killed"), "half a cont")
	err := g.Write(t.Context(), account, 5, accountFile, 0o600, func(w io.Writer) error {
		if _, err := io.WriteString(w, "whole"); err != nil {
			return err
		}
		mustNew(t, dir, nil) // another process starts
		if l := leftovers(t, dir); len(l) != 1 || strings.Contains(l[0], "killed") {
			return fmt.Errorf("unfinished: %q; want the one of this write", l)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if got := content(t, dir, accountFile); got != "whole" {
		t.Errorf("the file holds %q", got)
	}
	if l := leftovers(t, dir); l != nil {
		t.Errorf("left behind: %q", l)
	}
}

// Between its making and its lock an unfinished content looks like a leftover. Its writer must notice.
func TestContentThatWasTakenForALeftoverIsMadeAgain(t *testing.T) {
	dir := memoryDir(t)
	taken := 0
	g := newHooked(t, dir, nil, func(op, name string) error {
		if op == "lock" && strings.HasPrefix(filepath.Base(name), tempPrefix) && taken < 2 {
			taken++
			mustNew(t, dir, nil)
		}
		return nil
	})
	if err := g.WriteFile(t.Context(), account, 5, accountFile, []byte("whole"), 0o600); err != nil {
		t.Error(err)
	}
	if got := content(t, dir, accountFile); got != "whole" || taken != 2 {
		t.Errorf("the file holds %q, after %d contents were taken away", got, taken)
	}
}
