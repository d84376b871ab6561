package house

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A program that imports lock links the modules that it would link for etcd's client, zap and x/sys anyway, and this one.
func TestAProgramThatLocksLinksOneModuleMore(t *testing.T) {
	// In a fresh cache nobody may have built these yet.
	if _, err := goCommand(root, nil, "list", "-deps", "./lock"); err != nil {
		t.Fatal(err)
	}
	with := linked(t, `import _ "`+module+`/lock"`)
	without := linked(t, `import (
	_ "go.etcd.io/etcd/client/v3"
	_ "go.uber.org/zap"
	_ "golang.org/x/sys/cpu"
)`)
	if i := slices.Index(with, module); i < 0 {
		t.Fatalf("the module is missing among %v", with)
	} else {
		with = slices.Delete(with, i, i+1)
	}
	for _, m := range with {
		if !slices.Contains(without, m) {
			t.Errorf("a program gains %s", m)
		}
	}
	for _, m := range without {
		if !slices.Contains(with, m) {
			t.Errorf("a program with lock does not link %s: the comparison is wrong", m)
		}
	}
	t.Logf("%d modules: %s", len(without), strings.Join(without, " "))
}

// linked returns the modules of which a program with these imports contains packages.
func linked(t *testing.T, imports string) []string {
	t.Helper()
	abs, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	// A program of its own, with the versions that this module requires: the list must not depend on newer ones.
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	consumer := strings.Replace(string(mod), "module "+module, "module example.test/consumer", 1) +
		"\nrequire " + module + " v0.0.0\nreplace " + module + " => " + abs + "\n"
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": consumer, "go.sum": string(sum), "main.go": "package main\n\n" + imports + "\n\nfunc main() {}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Offline: what this repository's own build has fetched is enough, or the consumer would need something else.
	env := []string{"GOPROXY=off", "GOFLAGS=-mod=mod", "GOWORK=off"}
	modules, err := goCommand(dir, env, "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(modules)
	modules = slices.Compact(modules)
	return slices.DeleteFunc(modules, func(m string) bool { return m == "example.test/consumer" })
}
