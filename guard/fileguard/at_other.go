//go:build !linux && !darwin

package fileguard

import (
	"errors"
	"os"
)

const openFolder = os.O_RDONLY

func renameInto(*os.File, *os.Root, string, string) error { return errors.ErrUnsupported }

func removeFrom(*os.File, *os.Root, string) error { return errors.ErrUnsupported }
