package house

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMakefileKnowsEveryModule(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^MODULES := (.*)$`).FindSubmatch(makefile)
	if found == nil {
		t.Fatal("the Makefile has no line MODULES := ...")
	}
	listed := strings.Fields(string(found[1]))
	var there []string
	err = walk(func(p string) error {
		if path.Base(p) == "go.mod" {
			there = append(there, path.Dir(p))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(listed)
	slices.Sort(there)
	if !slices.Equal(listed, there) {
		t.Errorf("the Makefile's MODULES are %v, the repository has %v", listed, there)
	}
}

// forbidden are texts that no file may hold. They are put together here, so that this file holds none of them.
var forbidden = map[string]*regexp.Regexp{
	"a package registry's host": regexp.MustCompile(`(proxy|sum|index)\.` + `golang\.org|registry\.` + `npmjs|pypi\.` + `org|` +
		`crates\.` + `io|rubygems\.` + `org|(deb|security)\.debian\.` + `org|repo1?\.maven`),
	"a server that listens beyond this machine": regexp.MustCompile(`(?:^|[^0-9.])0\.0\.` + `0\.0|\[:` + `:\]|` +
		`(Listen|ListenAndServe|ListenAndServeTLS)\((ctx, )?("tcp[46]?", )?"` + `:`),
	"a path of somebody's machine": regexp.MustCompile(`(?:^|[^A-Za-z0-9_.])/(?:work|root|home/[a-z]+)` + `/`),
}

func TestNoFileHoldsWhatDoesNotBelong(t *testing.T) {
	err := walk(func(p string) error {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(p)))
		if err != nil {
			return err
		}
		if bytes.IndexByte(text, 0) >= 0 {
			return nil // a built program
		}
		for i, line := range strings.Split(string(text), "\n") {
			for what, re := range forbidden {
				if s := re.FindString(line); s != "" {
					t.Errorf("%s:%d: %s: %q", p, i+1, what, s)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestForbiddenTextsAreFound(t *testing.T) {
	for what, samples := range map[string][]string{
		"a package registry's host":                 {"https://proxy." + "golang.org/x", "deb." + "debian.org"},
		"a server that listens beyond this machine": {"0.0." + "0.0:80", `net.Listen("tcp", "` + `:0")`, `http.ListenAndServe("` + `:80", nil)`},
		"a path of somebody's machine":              {"see /work" + "/x", `"/home/me` + `/x"`},
	} {
		for _, s := range samples {
			if !forbidden[what].MatchString(s) {
				t.Errorf("%s: %q passes", what, s)
			}
		}
	}
	for _, s := range []string{`net.Listen("tcp", "127.0.0.1:0")`, "10.0.0.0", "network/", "golang.org/x/sys", "a/root/b"} {
		for what, re := range forbidden {
			if re.MatchString(s) {
				t.Errorf("%q is taken for %s", s, what)
			}
		}
	}
}

// Every package with tests says in its TestMain that nothing is left running.
func TestEveryTestedPackageLooksForLeaks(t *testing.T) {
	checked := make(map[string]bool) // by folder
	err := walk(func(p string) error {
		if !strings.HasSuffix(p, "_test.go") || strings.Contains(p, "testdata/") {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(p)))
		if err != nil {
			return err
		}
		dir := path.Dir(p)
		checked[dir] = checked[dir] || strings.Contains(string(text), "goleak.VerifyTestMain(")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(checked) == 0 {
		t.Fatal("found no tests at all")
	}
	for dir, ok := range checked {
		if !ok {
			t.Errorf("%s: no TestMain with goleak.VerifyTestMain", dir)
		}
	}
}

// Build tags and underscores must not keep an example out of the build, nor a module of its own.
func TestEveryExampleCompiles(t *testing.T) {
	want := make(map[string]bool)
	modules := []string{root} // folders
	err := walk(func(p string) error {
		if strings.HasPrefix(p, "examples/") && strings.HasSuffix(p, ".go") && !strings.HasSuffix(p, "_test.go") {
			want[module+"/"+path.Dir(p)] = true
		}
		if strings.HasPrefix(p, "examples/") && path.Base(p) == "go.mod" {
			modules = append(modules, filepath.Join(root, filepath.FromSlash(path.Dir(p))))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !want[module+"/examples/quickstart"] {
		t.Error("there is no examples/quickstart")
	}
	if len(want) == 0 {
		return
	}
	var listed []string
	for _, dir := range modules {
		pattern := "./..."
		if dir == root {
			pattern = "./examples/..."
		}
		pkgs, err := goCommand(dir, nil, "list", pattern)
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, pkgs...)
		if _, err := goCommand(dir, nil, "build", "-o", t.TempDir()+"/", pattern); err != nil {
			t.Error(err)
		}
	}
	for pkg := range want {
		if !slices.Contains(listed, pkg) {
			t.Errorf("go list does not see %s", pkg)
		}
	}
}
