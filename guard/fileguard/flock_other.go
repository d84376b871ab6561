//go:build !linux && !darwin

package fileguard

import (
	"errors"
	"os"
)

const supported = false

func tryFlock(*os.File) (bool, error) { return false, errors.ErrUnsupported }
