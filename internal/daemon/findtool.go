//go:build unix

package daemon

import (
	"os"
	"os/exec"
	"path/filepath"
)

// FindTool returns the path of a program that scripts/setup installs for this repository alone, given by its path below
// .tools, such as "bin/versitygw"; else one of that name on PATH. "" if there is neither. Tests run in their package's
// folder, so the root is above.
func FindTool(path string) string {
	dir, err := os.Getwd()
	for err == nil {
		if p := filepath.Join(dir, ".tools", filepath.FromSlash(path)); Executable(p) {
			return p
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			break
		}
		dir = parent
	}
	p, err := exec.LookPath(filepath.Base(path))
	if err != nil {
		return ""
	}
	return p
}
