package house

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
)

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// People copy what the README shows, so all of it compiles, and the program does what it says.
func TestTheReadmesProgramsAreTrue(t *testing.T) {
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(readme(t), -1)
	if len(blocks) == 0 {
		t.Fatal("the README shows no Go")
	}
	cluster := etcdtest.Start(t, nil)
	const etcd = "http://127.0.0.1:2379"
	files := make(map[string]string)
	program := ""
	for i, b := range blocks {
		dir := fmt.Sprintf("block%d", i)
		if program == "" && strings.Contains(b[1], etcd) {
			program = dir
		}
		files[dir+"/block.go"] = strings.ReplaceAll(b[1], etcd, cluster.Endpoints()[0])
	}
	if program == "" {
		t.Fatalf("the README shows no program with etcd at %s", etcd)
	}
	dir := consumer(t, files)
	if _, err := goCommand(dir, consumerEnv, "vet", "./..."); err != nil {
		t.Error(err)
	}

	exe := filepath.Join(t.TempDir(), "program")
	if _, err := goCommand(dir, consumerEnv, "build", "-o", exe, "./"+program); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, "bank.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE account (id, balance); INSERT INTO account VALUES (1, 100), (2, 100)"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for want := 150; want <= 200; want += 50 {
		cmd := exec.CommandContext(ctx, exe)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("%v: %s", err, out)
		}
		var balance int
		if err := db.QueryRowContext(ctx, "SELECT balance FROM account WHERE id = 1").Scan(&balance); err != nil || balance != want {
			t.Fatalf("the balance is %d, %v; want %d", balance, err, want)
		}
	}
	var resource string
	err = db.QueryRowContext(ctx, "SELECT resource FROM fencedlock_marks WHERE token > 1 AND resource <> ''").Scan(&resource)
	if err != nil || resource != "account/1" {
		t.Errorf("the mark is of %q, %v", resource, err)
	}
	etcdtest.AssertEmpty(t, cluster.Client(t), "", 0)
}

func TestTheReadmesLinksLeadSomewhere(t *testing.T) {
	text := regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(readme(t), "")
	links := regexp.MustCompile(`\]\(([^)#]+)[^)]*\)`).FindAllStringSubmatch(text, -1)
	if len(links) == 0 {
		t.Fatal("the README has no links")
	}
	for _, l := range links {
		if strings.HasPrefix(l[1], "https://") {
			continue
		}
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(l[1]))); err != nil {
			t.Errorf("README.md: %v", err)
		}
	}
}
