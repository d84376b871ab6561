//go:build unix && !linux

package child

import "syscall"

// attr leaves it to the parent what a terminal's signals mean. Nothing here lets the child die with it; one that is not
// stopped sees the end of its standard input.
func attr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
