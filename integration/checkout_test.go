//go:build unix

package integration

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/internal/daemon"
)

// goEnv keeps what the caller's go command was told from those of another tree.
var goEnv = []string{"GOFLAGS=", "GOWORK=off"}

// repository is the folder of this tree.
func repository(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}")
	cmd.Env = append(os.Environ(), goEnv...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// checkout returns a folder with the tree of a commit. The history that the tests are run in may not reach back so far.
func checkout(t *testing.T, commit string) string {
	t.Helper()
	archive, err := exec.CommandContext(t.Context(), "git", "-C", repository(t), "archive", commit).Output()
	if err != nil {
		why := err.Error()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			why = strings.TrimSpace(string(exit.Stderr))
		}
		daemon.Unavailable(t, daemon.NotInstalledError(fmt.Sprintf(
			"the earlier release, commit %.7s, cannot be taken from git's history (%s); git fetch --unshallow brings it to a clone", commit, why)))
	}
	dir := t.TempDir()
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		switch h.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(path, 0o755)
		case tar.TypeReg:
			var content []byte
			if content, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(path, content, 0o644)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// buildContender builds testdata/contender as a program of the tree in dir.
func buildContender(t *testing.T, dir string) string {
	t.Helper()
	const path = "integration/testdata/contender" // as a package of that module it has its dependencies
	if dir != repository(t) {
		if err := os.CopyFS(filepath.Join(dir, path), os.DirFS("testdata/contender")); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	exe := filepath.Join(t.TempDir(), "contender")
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", exe, "./"+path)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), goEnv...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return exe
}
