package mariadbtest_test

import (
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fencedlock/fencedlock/internal/mariadbtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(mariadbtest.Main(m)) }

func exec1(t *testing.T, dsn, stmt string) error {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	_, err = db.ExecContext(t.Context(), stmt)
	return err
}

func must(t *testing.T, dsn, stmt string) {
	t.Helper()
	if err := exec1(t, dsn, stmt); err != nil {
		t.Fatalf("%s: %v", stmt, err)
	}
}

func TestServerKeepsItsDataOverACrash(t *testing.T) {
	s := mariadbtest.Start(t, false)
	dsn := s.Database(t)
	must(t, dsn, "CREATE TABLE x (n int PRIMARY KEY)")
	must(t, dsn, "INSERT INTO x VALUES (1)")
	s.Kill()
	if err := exec1(t, dsn, "DO 0"); err == nil {
		t.Error("a killed server answers")
	}
	s.Restart(t)
	if err := exec1(t, dsn, "INSERT INTO x VALUES (1)"); err == nil {
		t.Error("the row is gone")
	}
}

func TestDatabaseIsFreshForEachTest(t *testing.T) {
	for range 2 {
		must(t, mariadbtest.Database(t), "CREATE TABLE x (n int)")
	}
}

// The test runs itself again as a child, kills it while its server runs, and looks for what is left.
func TestKilledTestLeavesNothingBehind(t *testing.T) {
	if dir := os.Getenv("MARIADBTEST_CHILD"); dir != "" {
		s := mariadbtest.Start(t, false)
		if err := os.WriteFile(filepath.Join(dir, "dsn"), []byte(s.DSN("")), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "dsn"), filepath.Join(dir, "ready")); err != nil {
			t.Fatal(err)
		}
		select {}
	}
	mariadbtest.Database(t) // skips without MariaDB
	dir := t.TempDir()
	tmp, err := os.MkdirTemp("", "fencedlock-mariadbtest-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(tmp)
	if err := os.Chmod(tmp, 0o1777); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(exe, "-test.run=^TestKilledTestLeavesNothingBehind$")
	child.Env = append(os.Environ(), "MARIADBTEST_CHILD="+dir, "TMPDIR="+tmp)
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	ready := filepath.Join(dir, "ready")
	eventually(t, "the child's server runs", func() bool { _, err := os.Stat(ready); return err == nil })
	dsn, err := os.ReadFile(ready)
	if err != nil {
		t.Fatal(err)
	}
	must(t, string(dsn), "DO 0")
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	eventually(t, "the folder is gone", func() bool { left, err := os.ReadDir(tmp); return err == nil && len(left) == 0 })
	if err := exec1(t, string(dsn), "DO 0"); err == nil {
		t.Error("the killed test's server still answers")
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still not so: %s", what)
		}
	}
}

func TestMissingMariaDBSkipsUnlessRequired(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("MARIADBTEST_MISSING") == "1" {
		mariadbtest.Hide()
		mariadbtest.Database(t)
		return
	}
	for _, required := range []string{"0", "1"} {
		c := exec.Command(exe, "-test.run=^TestMissingMariaDBSkipsUnlessRequired$", "-test.v")
		c.Env = append(os.Environ(), "MARIADBTEST_MISSING=1", "FENCEDLOCK_REQUIRE_SERVERS="+required)
		out, err := c.CombinedOutput()
		if failed := err != nil; failed != (required == "1") {
			t.Errorf("with FENCEDLOCK_REQUIRE_SERVERS=%s: %v\n%s", required, err, out)
		}
	}
}
