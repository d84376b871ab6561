package pgtest_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/fencedlock/fencedlock/internal/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Main(m)) }

func exec1(t *testing.T, dsn, stmt string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if _, err := c.Exec(t.Context(), stmt); err != nil {
		t.Fatalf("%s: %v", stmt, err)
	}
}

func TestServerKeepsItsDataOverRestartAndCrash(t *testing.T) {
	s := pgtest.Start(t, false)
	dsn := s.Database(t)
	exec1(t, dsn, "CREATE TABLE x (n int)")
	s.Restart(t)
	exec1(t, dsn, "INSERT INTO x VALUES (1)")
	s.Kill()
	s.Restart(t)
	exec1(t, dsn, "DO $$ BEGIN ASSERT (SELECT count(*) = 1 FROM x); END $$")
}

func TestDatabaseIsFreshForEachTest(t *testing.T) {
	for range 2 {
		exec1(t, pgtest.Database(t), "CREATE TABLE x (n int)")
		exec1(t, pgtest.Schema(t), "CREATE TABLE x (n int)")
	}
}

// The test runs itself again as a child, kills it while its server runs, and looks for what is left.
func TestKilledTestLeavesNothingBehind(t *testing.T) {
	if dir := os.Getenv("PGTEST_CHILD"); dir != "" {
		s := pgtest.Start(t, false)
		if err := os.WriteFile(filepath.Join(dir, "dsn"), []byte(s.DSN("postgres")), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "dsn"), filepath.Join(dir, "ready")); err != nil {
			t.Fatal(err)
		}
		select {}
	}
	pgtest.Shared(t) // skips without PostgreSQL
	dir := t.TempDir()
	tmp, err := os.MkdirTemp("", "fencedlock-pgtest-")
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
	child.Env = append(os.Environ(), "PGTEST_CHILD="+dir, "TMPDIR="+tmp)
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	ready := filepath.Join(dir, "ready")
	eventually(t, "the child's server runs", func() bool { _, err := os.Stat(ready); return err == nil })
	dsn, err := os.ReadFile(ready)
	if err != nil {
		t.Fatal(err)
	}
	exec1(t, string(dsn), "SELECT 1")
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	eventually(t, "the folder is gone", func() bool { left, err := os.ReadDir(tmp); return err == nil && len(left) == 0 })
	if c, err := pgx.Connect(t.Context(), string(dsn)); err == nil {
		c.Close(t.Context())
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

func TestMissingPostgresSkipsUnlessRequired(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("PGTEST_MISSING") == "1" {
		pgtest.Hide()
		pgtest.Database(t)
		return
	}
	for _, required := range []string{"0", "1"} {
		c := exec.Command(exe, "-test.run=^TestMissingPostgresSkipsUnlessRequired$", "-test.v")
		c.Env = append(os.Environ(), "PGTEST_MISSING=1", "FENCEDLOCK_REQUIRE_SERVERS="+required)
		out, err := c.CombinedOutput()
		if failed := err != nil; failed != (required == "1") {
			t.Errorf("with FENCEDLOCK_REQUIRE_SERVERS=%s: %v\n%s", required, err, out)
		}
	}
}
