package house

import (
	"strings"
	"testing"
)

// dependencies lists what the packages link beside the standard library, tests excluded.
func dependencies(t *testing.T, patterns ...string) []string {
	t.Helper()
	args := append([]string{"list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}"}, patterns...)
	deps, err := goCommand(root, nil, args...)
	if err != nil {
		t.Fatal(err)
	}
	if len(deps) == 0 {
		t.Fatalf("%v: no packages", patterns)
	}
	return deps
}

func under(pkg string, parents ...string) bool {
	for _, p := range parents {
		if p = module + "/" + p; pkg == p || strings.HasPrefix(pkg, p+"/") {
			return true
		}
	}
	return false
}

func TestGuardImportsTheStandardLibraryOnly(t *testing.T) {
	for _, d := range dependencies(t, "./guard") {
		if d != module+"/guard" {
			t.Errorf("guard links %s", d)
		}
	}
}

func TestNoGuardImportsLockOrSession(t *testing.T) {
	for _, d := range dependencies(t, "./guard/...") {
		if under(d, "lock", "session") {
			t.Errorf("a package under guard links %s", d)
		}
	}
}

func TestLockAndSessionImportOnlyWhatTheyRestOn(t *testing.T) {
	for pkg, allowed := range map[string][]string{
		"lock":    {"lock", "session", "guard", "internal"},
		"session": {"session", "internal"},
	} {
		for _, d := range dependencies(t, "./"+pkg) {
			if strings.HasPrefix(d, module) && !under(d, allowed...) {
				t.Errorf("%s links %s", pkg, d)
			}
			if strings.HasPrefix(d, module+"/guard/") {
				t.Errorf("%s links %s: only guard itself is allowed", pkg, d)
			}
		}
	}
}

// What only tests need must not reach programs that use the library.
func TestTheLibraryLinksNoServerAndNoTestCode(t *testing.T) {
	pkgs, err := goCommand(root, nil, "list", "./session/...", "./lock/...", "./guard/...")
	if err != nil {
		t.Fatal(err)
	}
	for _, pkg := range pkgs {
		if under(pkg, "guard/guardtest", "guard/blobguard/buckettest") {
			continue // they are there for tests
		}
		deps, err := goCommand(root, nil, "list", "-deps", pkg)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range deps {
			if d == "testing" || strings.HasPrefix(d, "go.etcd.io/etcd/server/") || under(d, "integration", "guard/guardtest", "guard/blobguard/buckettest") {
				t.Errorf("%s links %s", pkg, d)
			}
		}
	}
}
