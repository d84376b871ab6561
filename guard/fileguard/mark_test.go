package fileguard

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/fencedlock/fencedlock/guard"
)

// A state file that is empty, cut off or of another kind is taken for "nothing there", and whoever comes is let in:
// https://github.com/caddyserver/caddy/issues/4448, https://github.com/caddyserver/certmagic/issues/232,
// https://github.com/caddyserver/certmagic/issues/169
func TestDamagedMarkFailsClosedUntilItIsRepaired(t *testing.T) {
	good := string(encodeMark(account, 9))
	for name, c := range map[string]struct{ mark, reason string }{
		"empty":              {"", "empty"},
		"NUL bytes":          {strings.Repeat("\x00", len(good)), "NUL"},
		"half a line":        {good[:len(good)/2], "cut off"},
		"no end of line":     {good[:len(good)-1], "cut off"},
		"intro alone":        {markIntro, "version"},
		"no token":           {"fencedlock-mark 1", "token"},
		"more behind it":     {good + "\n", "changed"},
		"twice":              {good + good, "changed"},
		"another token":      {strings.Replace(good, " 9 ", " 4 ", 1), "changed"},
		"token 0":            {strings.Replace(good, " 9 ", " 0 ", 1), "token"},
		"negative":           {strings.Replace(good, " 9 ", " -9 ", 1), "token"},
		"beyond 2^63":        {strings.Replace(good, " 9 ", " 9223372036854775808 ", 1), "token"},
		"huge":               {strings.Replace(good, " 9 ", " "+strings.Repeat("9", 5000)+" ", 1), "token"},
		"another version":    {strings.Replace(good, "-mark 1", "-mark 2", 1), "version"},
		"another resource's": {string(encodeMark("account/2", 9)), "another"},
		"JSON":               {`{"token": 9}`, "no mark"},
		"a bare number":      {"9\n", "no mark"},
		"checksum in capitals, as no release writes it": {strings.ToUpper(good), "no mark"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := memoryDir(t)
			g := mustNew(t, dir, nil)
			mustWrite(t, g.path(markName(account)), c.mark)
			mustWrite(t, g.path(accountFile), "9")
			failsClosed(t, g, c.reason)
			if got := content(t, dir, markName(account)); got != c.mark {
				t.Errorf("the mark became %q", got)
			}

			if err := g.Repair(t.Context(), account, 0); !errors.Is(err, guard.ErrNoToken) {
				t.Errorf("Repair without a floor: %v; want ErrNoToken", err)
			}
			failsClosed(t, g, c.reason)
			if err := g.Repair(t.Context(), account, 10); err != nil {
				t.Fatalf("Repair: %v", err)
			}
			if high, err := mustNew(t, dir, nil).Highest(t.Context(), account); high != 10 || err != nil {
				t.Errorf("after Repair: Highest = %d, %v; want 10", high, err)
			}
			var stale *guard.StaleError
			if err := g.WriteFile(t.Context(), account, 9, accountFile, nil, 0o600); !errors.As(err, &stale) || stale.Highest != 10 {
				t.Errorf("a write below the floor: %v; want stale by 10", err)
			}
			if err := g.WriteFile(t.Context(), account, 10, accountFile, []byte("10"), 0o600); err != nil {
				t.Errorf("a write at the floor: %v", err)
			}
		})
	}
}

// failsClosed reports an operation that does not refuse for the mark's sake, or changes something.
func failsClosed(t *testing.T, g *Guard, reason string) {
	t.Helper()
	file, err := os.ReadFile(g.path(accountFile))
	if err != nil {
		t.Fatal(err)
	}
	_, errHighest := g.Highest(t.Context(), account)
	for op, err := range map[string]error{
		"WriteFile": g.WriteFile(t.Context(), account, math.MaxInt64, accountFile, []byte("new"), 0o600),
		"Remove":    g.Remove(t.Context(), account, math.MaxInt64, accountFile),
		"Seal":      g.Seal(t.Context(), account, math.MaxInt64),
		"Highest":   errHighest,
	} {
		var damaged *MarkError
		switch {
		case !errors.As(err, &damaged), errors.Is(err, guard.ErrStale), errors.Is(err, guard.ErrUnknown):
			t.Errorf("%s: %v; want a *MarkError", op, err)
		case damaged.Path != g.path(markName(account)) || damaged.Resource != account || !strings.Contains(damaged.Err.Error(), reason):
			t.Errorf("%s: %+v; want the path and a reason with %q", op, damaged, reason)
		case !strings.Contains(err.Error(), damaged.Path) || !strings.HasPrefix(err.Error(), "fileguard: ") || len(err.Error()) > 500:
			t.Errorf("%s: the text %q", op, err)
		}
	}
	if now, err := os.ReadFile(g.path(accountFile)); err != nil || string(now) != string(file) || leftovers(t, g.dir) != nil {
		t.Errorf("the file became %q, %v; unfinished are %q", now, err, leftovers(t, g.dir))
	}
}

func TestMarkThatIsNoFileFailsClosed(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"folder":        func(p string) error { return os.Mkdir(p, 0o700) },
		"symbolic link": func(p string) error { return os.Symlink("nowhere", p) },
		"pipe":          func(p string) error { return syscall.Mkfifo(p, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			g := mustNew(t, memoryDir(t), nil)
			mustWrite(t, g.path(accountFile), "9")
			if err := put(g.path(markName(account))); err != nil {
				t.Fatal(err)
			}
			failsClosed(t, g, "no regular file")
			err := g.Repair(t.Context(), account, 10)
			if name == "folder" { // it cannot be replaced in one step
				var damaged *MarkError
				if !errors.As(err, &damaged) {
					t.Errorf("Repair: %v; want a *MarkError", err)
				}
				failsClosed(t, g, "no regular file")
				return
			}
			if high, errHighest := g.Highest(t.Context(), account); err != nil || high != 10 || errHighest != nil {
				t.Errorf("Repair: %v, Highest = %d, %v; want 10", err, high, errHighest)
			}
		})
	}
}

// A disk that cannot be read says nothing about the mark.
func TestUnreadableMarkFailsClosed(t *testing.T) {
	for _, at := range []string{"lstat", "open", "read"} {
		g := newHooked(t, memoryDir(t), nil, func(op, name string) error {
			if op == at && isMark(name) {
				return &os.PathError{Op: op, Path: name, Err: syscall.EIO}
			}
			return nil
		})
		mustWrite(t, g.path(markName(account)), string(encodeMark(account, 9)))
		mustWrite(t, g.path(accountFile), "9")
		failsClosed(t, g, "input/output error")
	}
}

// Marks that are gone are not marks that never were.
func TestMarksThatSomebodyRemovedAreMissed(t *testing.T) {
	for name, remove := range map[string]func(dir string) error{
		"the mark":   func(dir string) error { return os.Remove(filepath.Join(dir, markName(account))) },
		"the folder": func(dir string) error { return os.RemoveAll(filepath.Join(dir, marksDir)) },
		"replaced by a lower": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, markName(account)), encodeMark(account, 8), 0o600)
		},
		"the folder, made new": func(dir string) error {
			return errors.Join(os.RemoveAll(filepath.Join(dir, marksDir)), os.Mkdir(filepath.Join(dir, marksDir), 0o700))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := memoryDir(t)
			g := mustNew(t, dir, nil)
			if err := g.WriteFile(t.Context(), account, 9, accountFile, []byte("9"), 0o600); err != nil {
				t.Fatal(err)
			}
			another := mustNew(t, dir, nil) // which has not seen the mark, and can miss no more than the folder
			if err := remove(dir); err != nil {
				t.Fatal(err)
			}
			if high, err := another.Highest(t.Context(), account); name == "the folder" && err == nil {
				t.Errorf("Highest without the folder of marks = %d; want an error", high)
			}
			if high, err := g.Highest(t.Context(), account); err == nil {
				t.Errorf("Highest = %d; want an error", high)
			}
			for _, tok := range []guard.Token{8, 9, 10} {
				if err := g.WriteFile(t.Context(), account, tok, accountFile, []byte("late"), 0o600); err == nil || errors.Is(err, guard.ErrStale) {
					t.Errorf("a write with %d: %v; want an error about the marks", tok, err)
				}
			}
			if got := content(t, dir, accountFile); got != "9" {
				t.Errorf("the file holds %q", got)
			}
		})
	}
}

func TestRepairNeverLowers(t *testing.T) {
	dir := memoryDir(t)
	g := mustNew(t, dir, nil)
	for _, c := range []struct{ floor, want guard.Token }{{7, 7}, {5, 7}, {7, 7}, {9, 9}, {1, 9}} {
		if err := g.Repair(t.Context(), account, c.floor); err != nil {
			t.Fatal(err)
		}
		if high, err := mustNew(t, dir, nil).Highest(t.Context(), account); high != c.want || err != nil {
			t.Errorf("after Repair(%d): Highest = %d, %v; want %d", c.floor, high, err, c.want)
		}
	}
	// This process knows more than a damaged mark does.
	mustWrite(t, g.path(markName(account)), "")
	if err := g.Repair(t.Context(), account, 5); err != nil {
		t.Fatal(err)
	}
	if high, err := mustNew(t, dir, nil).Highest(t.Context(), account); high != 9 || err != nil {
		t.Errorf("Highest = %d, %v; want the 9 that this guard had written", high, err)
	}
}

// Each name has files of its own on every file system, also on those that fold the case or allow 255 bytes.
func TestNamesOfMarksFitEveryFileSystem(t *testing.T) {
	seen := make(map[string]string)
	for _, r := range []string{"a", "A", "a/b", "a%2Fb", "..", ".", "é", "e\u0301", strings.Repeat("x", 512), strings.Repeat("x", 511) + "y", strings.Repeat("\x01", 512)} {
		name := markName(r)
		if !regexp.MustCompile(`^[0-9a-f]{64}\.mark$`).MatchString(path.Base(name)) || path.Dir(name) != marksDir {
			t.Errorf("the mark of %.20q is in %s", r, name)
		}
		if other, there := seen[name]; there {
			t.Errorf("%.20q and %.20q share %s", r, other, name)
		}
		seen[name] = r
		b := encodeMark(r, math.MaxInt64)
		if tok, err := decodeMark(r, b); tok != math.MaxInt64 || err != nil || len(b) >= longestMark {
			t.Errorf("%.20q: %d bytes become %d, %v", r, len(b), tok, err)
		}
	}
}

func FuzzDecodeMark(f *testing.F) {
	for _, s := range []string{"", "fencedlock-mark 1 9 ", string(encodeMark(account, 9)), string(encodeMark("b", math.MaxInt64))} {
		f.Add(account, []byte(s))
	}
	f.Fuzz(func(t *testing.T, resource string, b []byte) {
		tok, err := decodeMark(resource, b)
		if err == nil && string(encodeMark(resource, tok)) != string(b) {
			t.Errorf("%q is taken for %d", b, tok)
		}
		if err != nil && tok != 0 {
			t.Errorf("%q gives %d and %v", b, tok, err)
		}
		_ = fmt.Sprint(err)
	})
}
