//go:build unix

package model

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/fencedlock/fencedlock/internal/daemon"
)

const howToInstall = `model: spin and a C compiler are needed, and %s is not here
  Debian, Ubuntu   sudo apt-get install spin gcc
  Fedora           sudo dnf install spin gcc
  macOS            brew install spin; xcode-select --install`

// tool returns the path of a program, or skips the test.
func tool(t *testing.T, name string) string {
	t.Helper()
	path := daemon.FindTool(name)
	if path == "" {
		daemon.Unavailable(t, daemon.NotInstalledError(strings.Replace(howToInstall, "%s", name, 1)))
	}
	return path
}

// search is what a search for errors is made of.
type search struct {
	switches string // of lock.pml
	compile  string // of the verifier
	run      string // of it, too
}

// result is what the verifier said.
type result struct {
	errors    int
	states    int
	violated  string          // the property whose assertion failed, or "acceptance cycle"
	unreached map[string]bool // names of properties.pml's REACHED
	output    string
}

var (
	reErrors    = regexp.MustCompile(`depth reached \d+, errors: (\d+)`)
	reStates    = regexp.MustCompile(`(\d+) states, stored`)
	reViolated  = regexp.MustCompile(`(?m)^pan:\d+: (?:assertion violated +!\((\w+)\)|(acceptance cycle))`)
	reUnreached = regexp.MustCompile(`"printf\('(\w+)'\)"`)
)

// do has the model compiled in a folder of its own and searched, and returns that folder too.
func (s search) do(t *testing.T) (dir string, r result) {
	t.Helper()
	spin, cc := tool(t, "spin"), tool(t, "cc")
	dir = t.TempDir()
	sources, err := filepath.Glob("*.pml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range sources {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Merged statements (-o3 switches that off) are listed as unreached though they are not.
	command(t, dir, spin, join("-P"+cc+" -E -x c", "-o3", s.switches, "-a lock.pml")...)
	command(t, dir, cc, join("-w -o pan", s.compile, "pan.c")...)
	r.output = command(t, dir, "./pan", strings.Fields("-m2000000 "+s.run)...)
	if strings.Contains(r.output, "max search depth too small") || strings.Contains(r.output, "out of memory") {
		t.Fatalf("%s: the search was cut short:\n%s", s.switches, r.output)
	}
	number := func(re *regexp.Regexp) int {
		found := re.FindStringSubmatch(r.output)
		if found == nil {
			t.Fatalf("%s: the verifier said\n%s", s.switches, r.output)
		}
		n, err := strconv.Atoi(found[1])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	r.errors, r.states = number(reErrors), number(reStates)
	if found := reViolated.FindStringSubmatch(r.output); found != nil {
		r.violated = found[1] + found[2]
	}
	r.unreached = make(map[string]bool)
	for _, found := range reUnreached.FindAllStringSubmatch(r.output, -1) {
		r.unreached[found[1]] = true
	}
	return dir, r
}

// story replays the run that led to the error and returns what it told.
func (s search) story(t *testing.T, dir string) (lines []string) {
	t.Helper()
	for line := range strings.Lines(command(t, dir, tool(t, "spin"), join("-P"+tool(t, "cc")+" -E -x c", "-o3", s.switches, "-T -B -t lock.pml")...)) {
		for _, subject := range []string{"session ", "the ", "a late "} {
			if strings.HasPrefix(line, subject) {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
	}
	return lines
}

// join makes a command line of one argument that holds blanks, if the first begins with -P, and of words.
func join(words ...string) (args []string) {
	for _, w := range words {
		if strings.HasPrefix(w, "-P") {
			args = append(args, w)
		} else {
			args = append(args, strings.Fields(w)...)
		}
	}
	return args
}

func command(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), program, args...)
	c.Dir = dir
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(program), strings.Join(args, " "), err, out)
	}
	return string(out)
}
