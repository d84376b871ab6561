// Package house holds the tests of the repository itself: which package may import which, what a user's program links,
// and that nothing in the tree breaks the rules of CONTRIBUTING.
package house

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const module = "github.com/fencedlock/fencedlock"

// root is the repository's folder, seen from this package's.
const root = "../.."

// goCommand runs the go command and returns its output, line by line.
func goCommand(dir string, env []string, args ...string) ([]string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, &stderr)
	}
	return strings.Fields(string(out)), nil
}

// walk calls visit for every file of the repository, with its path from the root, but for what scripts/setup installs.
func walk(visit func(path string) error) error {
	return filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == ".git" || d.Name() == ".tools" {
				return filepath.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return visit(filepath.ToSlash(rel))
	})
}
