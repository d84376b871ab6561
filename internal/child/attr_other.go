//go:build unix && !linux

package child

import "syscall"

// dieWithParent can do nothing here; a child that is not stopped still sees the end of its standard input.
func dieWithParent() *syscall.SysProcAttr { return nil }
