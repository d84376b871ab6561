package guard_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const module = "github.com/fencedlock/fencedlock"

func goTool(t *testing.T, dir, flags string, args ...string) string {
	t.Helper()
	c := exec.Command("go", args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GOFLAGS="+flags, "GOPROXY=off", "GOWORK=off")
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, &stderr)
	}
	return string(out)
}

// What is imported by everybody must bring nothing along.
func TestGuardsOfTheStandardLibraryImportNothingElse(t *testing.T) {
	for pkg, allowed := range map[string]string{
		"guard":           module + "/guard",
		"guard/guardtest": module + "/guard",
		"guard/sqlguard":  module + "/guard",
	} {
		out := goTool(t, ".", "-mod=readonly", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", module+"/"+pkg)
		deps := strings.Fields(out)
		if len(deps) == 0 {
			t.Errorf("%s: go list found nothing, not even the package", pkg)
		}
		for _, dep := range deps {
			if dep != allowed && !strings.HasPrefix(dep, allowed+"/") {
				t.Errorf("%s links %s", pkg, dep)
			}
		}
	}
}

// A program that uses guard and sqlguard gains this module in its go.mod, and no other in its binary.
func TestConsumerOfSQLGuardGainsNoOtherModule(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	// Tidying looks at the tests of what is imported, too; their sums are known here, and nothing has to be looked up.
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.sum": string(sum),
		"go.mod": "module example.com/consumer\n\ngo 1.26.0\n\nrequire " + module + " v0.0.0\n\nreplace " + module + " => " + root + "\n",
		"main.go": `package main

import (
	"context"
	"database/sql"

	"` + module + `/guard"
	"` + module + `/guard/sqlguard"
)

func main() {
	g, err := sqlguard.New(&sql.DB{}, sqlguard.Postgres, nil)
	if err != nil {
		panic(err)
	}
	var s guard.Sealer = g
	_ = s.Seal(context.Background(), "x", 0)
}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	goTool(t, dir, "-mod=mod", "mod", "tidy")
	goTool(t, dir, "-mod=mod", "build", "-o", os.DevNull, ".")
	for _, m := range strings.Fields(goTool(t, dir, "-mod=mod", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".")) {
		if m != "example.com/consumer" && m != module {
			t.Errorf("the consumer links %s", m)
		}
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(mod), " v"); n != 1 {
		t.Errorf("the consumer requires %d modules:\n%s", n, mod)
	}
}
