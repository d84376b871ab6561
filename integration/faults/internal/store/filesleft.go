//go:build unix

package store

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"

	"github.com/fencedlock/fencedlock/guard/fileguard"
)

// Contents that were begun. A writer that is killed leaves them, and the next Guard that is made removes those of guarded
// writers.
var (
	guardedTemp   = regexp.MustCompile(`^\.fencedlock/tmp-[a-z2-7]{26}$`)
	unguardedTemp = regexp.MustCompile(`^unguarded-[0-9]+$`)
)

// FilesLeft returns what is in the folder of files beside the resource, and under a guard its one mark and its one lock,
// when all workers have ended and no Guard has been made since. killed says that some of them were killed.
func FilesLeft(p Places, guarded, killed bool) ([]string, error) {
	resource := fileKind.Resource()
	stay := []string{fileName(resource)}
	if guarded {
		sum := sha256.Sum256([]byte(resource)) // as fileguard names them
		base := ".fencedlock/" + hex.EncodeToString(sum[:])
		stay = append(stay, base+".mark", base+".lock")
	}
	strays := func(excused func(name string) bool) (names []string, err error) {
		err = fs.WalkDir(os.DirFS(p.Files), ".", func(name string, e fs.DirEntry, err error) error {
			folder := name == "." || name == ".fencedlock"
			if err == nil && folder != e.IsDir() || !folder && !slices.Contains(stay, name) && !excused(name) {
				names = append(names, name)
			}
			return err
		})
		return names, err
	}
	forGood := func(name string) bool { return killed && !guarded && unguardedTemp.MatchString(name) }
	before, err := strays(func(name string) bool { return killed && guardedTemp.MatchString(name) || forGood(name) })
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	if _, err := fileguard.New(p.Files, nil); err != nil {
		return nil, err
	}
	after, err := strays(forGood)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	all := append(before, after...)
	slices.Sort(all)
	return slices.Compact(all), nil
}
