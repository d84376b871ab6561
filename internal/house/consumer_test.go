package house

import (
	"maps"
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
	oneMore(t, "lock", `import (
	_ "go.etcd.io/etcd/client/v3"
	_ "go.uber.org/zap"
	_ "golang.org/x/sys/cpu"
)`)
}

// A program that imports a guard links what the client that it hands over brings along, and this module.
func TestAProgramThatGuardsLinksOneModuleMore(t *testing.T) {
	for pkg, imports := range map[string]string{
		"sqlguard":           "",
		"pgxguard":           `import _ "github.com/jackc/pgx/v5/pgxpool"`,
		"redisguard":         "import (\n_ \"github.com/redis/go-redis/v9\"\n_ \"go.uber.org/zap\"\n)",
		"etcdguard":          `import _ "go.etcd.io/etcd/client/v3"`,
		"fileguard":          "",
		"blobguard":          "",
		"blobguard/s3bucket": `import _ "github.com/aws/aws-sdk-go-v2/service/s3"`,
		"httpguard":          "",
		"grpcguard":          "import (\n_ \"google.golang.org/grpc\"\n_ \"google.golang.org/genproto/googleapis/rpc/errdetails\"\n)",
	} {
		t.Run(pkg, func(t *testing.T) {
			if _, err := goCommand(root, nil, "list", "-deps", "./guard/"+pkg); err != nil { // for a fresh cache
				t.Fatal(err)
			}
			oneMore(t, "guard/"+pkg, imports)
		})
	}
}

// oneMore compares the modules of a program that imports a package of ours with those of one that has the given imports.
func oneMore(t *testing.T, pkg, imports string) {
	t.Helper()
	with := linked(t, `import _ "`+module+`/`+pkg+`"`)
	without := linked(t, imports)
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
			t.Errorf("a program with %s does not link %s: the comparison is wrong", pkg, m)
		}
	}
	t.Logf("%d modules: %s", len(without), strings.Join(without, " "))
}

// linked returns the modules of which a program with these imports contains packages.
func linked(t *testing.T, imports string) []string {
	t.Helper()
	dir := consumer(t, map[string]string{"main.go": "package main\n\n" + imports + "\n\nfunc main() {}\n"})
	modules, err := goCommand(dir, consumerEnv, "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(modules)
	modules = slices.Compact(modules)
	return slices.DeleteFunc(modules, func(m string) bool { return m == "example.test/consumer" })
}

// consumerEnv is for go commands in a consumer. They are offline: what this repository's own build has fetched is enough,
// or the consumer would need something else.
var consumerEnv = []string{"GOPROXY=off", "GOFLAGS=-mod=mod", "GOWORK=off"}

// consumer makes a module that uses this one, with the versions that this one requires: nothing must depend on newer
// ones. It returns its folder.
func consumer(t *testing.T, files map[string]string) string {
	t.Helper()
	abs, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{
		"go.mod": strings.Replace(string(mod), "module "+module, "module example.test/consumer", 1) +
			"\nrequire " + module + " v0.0.0\nreplace " + module + " => " + abs + "\n",
		"go.sum": string(sum),
	}
	maps.Copy(all, files)
	dir := t.TempDir()
	for name, text := range all {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
