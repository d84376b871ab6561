//go:build !linux && !darwin

package fileguard

import "errors"

func fileSystemOf(string) (fileSystemType, error) { return fileSystemType{}, errors.ErrUnsupported }
