//go:build !linux && !darwin

package fileguard

import (
	"errors"
	"os"
)

const openFolder = os.O_RDONLY

func renameAt(*os.File, string, *os.File, string) error { return errors.ErrUnsupported }

func removeAt(*os.File, string) error { return errors.ErrUnsupported }
